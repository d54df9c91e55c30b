"""The ids that git gives to a file and to a folder, which pin their bytes, and the names of all files in it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dulwich.objects import ObjectID, Tree


def git_tree_id(folder: Path) -> str:
    """The id of a folder of regular files, in hexadecimal digits; equal to `git rev-parse HEAD:FOLDER`."""
    return _tree(folder).id.decode()


def git_blob_id(file: Path) -> str:
    """The id of a file, in hexadecimal digits; equal to `git hash-object FILE`."""
    return _blob(file).decode()


def _blob(file: Path) -> "ObjectID":
    from dulwich.objects import Blob

    return Blob.from_string(file.read_bytes()).id


def _tree(folder: Path) -> "Tree":
    from dulwich.objects import Tree

    tree = Tree()
    for path in folder.iterdir():
        name = os.fsencode(path.name)
        if not path.is_dir():
            tree.add(name, 0o100644, _blob(path))
        elif len(subtree := _tree(path)):  # git does not record empty folders
            tree.add(name, 0o040000, subtree.id)
    return tree
