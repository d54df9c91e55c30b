"""Convert a nested state to the bytes of a safetensors file and back. Loading such a file cannot run code."""

import json
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

VERSION = 2


def pack(tree: Any) -> bytes:
    """Convert a nested state to the bytes of a safetensors file.

    The state consists of dictionaries, lists and tuples that contain tensors, numbers, strings and None.
    """
    tensors: dict[str, Tensor] = {}
    structure = json.dumps({"version": VERSION, "tree": _structure(tree, tensors)})
    return save(tensors, {"structure": structure})


def unpack(content: bytes) -> Any:
    """Convert `content`, a result of `pack`, back to the nested state. Tuples become lists.

    Raises:
        ValueError: `content` has another version of the format.
        SafetensorError: `content` is not a safetensors file.
    """
    size = int.from_bytes(content[:8], "little")
    tensors = load(content)  # also checks the header
    structure = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["structure"])
    if structure["version"] != VERSION:
        raise ValueError(f"the file has version {structure['version']} of the format, but version {VERSION} is needed")
    return _tree(structure["tree"], tensors)


def _structure(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return the nested state `value` in a form that JSON can represent."""
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
