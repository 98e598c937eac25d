"""Which objects an address names: one, those of a folder, or those that match a pattern.

Knows: listings. Does not know: which of them are documents.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from jobs.addresses.address import Address
from jobs.addresses.filesystem import naming_address, open_filesystem, version_of


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """An object at an address."""

    address: Address
    name: str  # below the folder, for messages
    version: str | None = None  # what changes when its content does; None: not asked
    num_bytes: int | None = None
    system: Any = field(default=None, repr=False, compare=False)  # which has listed it, and need not ask again; or None

    def __str__(self) -> str:
        return str(self.address)


def find_remote(address: Address) -> RemoteFile | list[RemoteFile]:
    """The object of that address, or the list of those of a folder or a pattern, in no order. Raises CorpusError where
    it cannot be listed, or nothing has that address."""
    if address.is_web:
        return RemoteFile(address, address.name)
    files = open_filesystem(address)
    with naming_address(address):
        if address.is_pattern:
            return _matching(files, address)
        if not address.rest.endswith("/"):
            info = files.info(address.path)
            if info["type"] == "file":
                return _remote_file(files, address, info, address.name)
        return _below(files, address, address.path)


def _matching(files: Any, address: Address) -> list[RemoteFile]:
    from fsspec.utils import glob_translate

    folder = re.split(r"[*?\[]", address.rest, maxsplit=1)[0].rpartition("/")[0]
    depth = None if "**" in address.rest else address.path[len(folder) :].count("/")
    pattern = re.compile(glob_translate(address.path))
    return [file for file in _below(files, address, folder, depth) if pattern.match(file.address.path)]


def _below(files: Any, address: Address, folder: str, depth: int | None = None) -> list[RemoteFile]:
    """All objects below a folder, whose markers (keys that end in a slash) are left out."""
    found: dict[str, Any] = files.find(folder, detail=True, maxdepth=depth)
    if not found:
        files.ls(folder)  # raises the error that `find` passes over
    return [
        _remote_file(files, address, info, key[len(folder) :].strip("/"))
        for key, info in found.items()
        if info["type"] == "file" and not key.endswith("/")
    ]


def _remote_file(files: Any, address: Address, info: dict[str, Any], name: str) -> RemoteFile:
    return RemoteFile(address.within(info["name"]), name, version_of(info), info["size"], files)
