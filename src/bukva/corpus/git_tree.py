"""The id that git gives to a folder, which pins the names and the bytes of all its files."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dulwich.objects import Tree


def git_tree_id(folder: Path) -> str:
    """The id of a folder of regular files, in hexadecimal digits; equal to `git rev-parse HEAD:FOLDER`."""
    return _tree(folder).id.decode()


def _tree(folder: Path) -> "Tree":
    from dulwich.objects import Blob, Tree

    tree = Tree()
    for path in folder.iterdir():
        name = os.fsencode(path.name)
        if not path.is_dir():
            tree.add(name, 0o100644, Blob.from_string(path.read_bytes()).id)
        elif len(subtree := _tree(path)):  # git does not record empty folders
            tree.add(name, 0o040000, subtree.id)
    return tree
