"""Convert nested state to the bytes of a safetensors file and back. Loading such a file cannot run code."""

import json
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

VERSION = 2


def pack(tree: Any) -> bytes:
    """Convert nested state to the bytes of a safetensors file.

    The state consists of nested dictionaries, lists and tuples, which contain tensors, numbers, strings and None.
    """
    tensors: dict[str, Tensor] = {}
    structure = json.dumps({"version": VERSION, "tree": _structure(tree, tensors)})
    return save(tensors, {"structure": structure})


def unpack(content: bytes) -> Any:
    """Return the nested state from which `pack` made `content`. A tuple is returned as a list.

    Raises:
        ValueError: another version of `pack` made `content`.
        SafetensorError: `content` is not a safetensors file.
    """
    size = int.from_bytes(content[:8], "little")
    tensors = load(content)  # also checks the header
    structure = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["structure"])
    if structure["version"] != VERSION:
        raise ValueError(f"its format has version {structure['version']}, but version {VERSION} is needed")
    return _tree(structure["tree"], tensors)


def _structure(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return a JSON value that describes nested state, and add the state's tensors to `tensors`, name -> tensor.

    In the JSON value, a tensor is represented by its name, and a dictionary by a list of pairs, because JSON allows
    only strings as keys.
    """
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"pairs": [[key, _structure(item, tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [_structure(item, tensors) for item in value]
    return value


def _tree(structure: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(structure, list):
        return [_tree(item, tensors) for item in structure]
    if isinstance(structure, dict):
        if "tensor" in structure:
            return tensors[structure["tensor"]]
        return {key: _tree(item, tensors) for key, item in structure["pairs"]}
    return structure
