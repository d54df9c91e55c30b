"""Nested states as the bytes of a safetensors file; nothing is ever unpickled."""

import json
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

VERSION = 2


def pack(tree: Any) -> bytes:
    """Nested dictionaries and lists of tensors, numbers, text and None, as the bytes of a safetensors file."""
    tensors: dict[str, Tensor] = {}
    structure = json.dumps({"version": VERSION, "tree": _structure(tree, tensors)})
    return save(tensors, {"structure": structure})


def unpack(content: bytes) -> Any:
    """What `pack` packed; tuples have become lists.

    Raises:
        ValueError: it is of another version.
        SafetensorError: it is not a safetensors file.
    """
    size = int.from_bytes(content[:8], "little")
    tensors = load(content)  # checks the header
    structure = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["structure"])
    if structure["version"] != VERSION:
        raise ValueError(f"version {structure['version']}, not {VERSION}")
    return _tree(structure["tree"], tensors)


def _structure(value: Any, tensors: dict[str, Tensor]) -> Any:
    """JSON in which a tensor is its name; dictionaries are lists of pairs, because JSON's keys are text only."""
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
