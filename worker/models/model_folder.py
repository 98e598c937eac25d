"""
A model's folder: its revision, its manifest, which of its files decide results.

Knows: files and their bytes. Does not know: names of models, what a model needs. Needs only the standard library.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from jobs.errors import KvjobsError
from worker.models.external_data import external_files
from worker.models.file_names import GGUF_MODEL, graph_places
from worker.models.manifest import MANIFEST, Manifest, deciding_content
from worker.models.readable_file import open_file
from worker.text.file_names import TEXT_FILES

_CHUNK = 1 << 20


class FileStamp(NamedTuple):
    """Changes whenever the file is written to or replaced."""

    device: int
    inode: int
    num_bytes: int
    modified_ns: int
    changed_ns: int  # of content, name or permissions


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model on disk."""

    name: str  # as a job names it: a name, or the absolute path of the folder
    path: Path

    def revision(self) -> str:
        """sha256 over the names and contents of the files that decide results; reads each of them."""
        digest = hashlib.sha256()
        for file in deciding_files(self.path):
            name = file.relative_to(self.path).as_posix()
            if name == MANIFEST:
                with open_file(file) as content:
                    decided = deciding_content(content.read())
                digest.update(f"{name}\0{len(decided)}\0".encode() + decided)
                continue
            digest.update(f"{name}\0{file.stat().st_size}\0".encode())
            with open_file(file) as content:
                while chunk := content.read(_CHUNK):
                    digest.update(chunk)
        return digest.hexdigest()

    def stamps(self) -> dict[str, FileStamp]:
        """What the file system says of the same files, by name. Reads no content: cheap enough to ask for each batch.

        Differs from an earlier answer if a file was written to, replaced, added or removed meanwhile: the inode changes
        with a replacement, the size or a time with a write, and the time of change cannot be set back.
        """
        found = {}
        for file in deciding_files(self.path):
            with contextlib.suppress(OSError):  # it has just gone
                status = file.stat()
                found[file.relative_to(self.path).as_posix()] = FileStamp(
                    status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
                )
        return found

    def stamp(self) -> str:
        """sha256 over `stamps`: the same as long as the files of this machine are the same."""
        return hashlib.sha256(json.dumps(self.stamps(), sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=256)
def known_revision(path: Path, stamp: str) -> str | None:
    """The revision of the model in a folder whose files have this stamp, read once; None where one cannot be read."""
    try:
        return ModelFolder(path.name, path).revision()
    except (KvjobsError, OSError):
        return None


def read_manifest(folder: ModelFolder) -> Manifest | None:
    """The manifest that `kvjobs models add` wrote; None for a folder that it did not make."""
    return Manifest.read(folder.path) if (folder.path / MANIFEST).is_file() else None


def deciding_files(path: Path) -> list[Path]:
    """Every file of a model that is opened: graphs, their external weights, the GGUF file, configurations,
    vocabularies, chat templates; not other files in the folder."""
    found = {file for part in graph_places(path) for file in files_in(part) if _decides(file.name)}
    found.update(*(external_files(file) for file in found if file.suffix == ".onnx"))
    return sorted(found, key=lambda file: file.relative_to(path).as_posix())


def files_in(folder: Path) -> Iterator[Path]:
    """The files of a folder that are not hidden; none where there is no folder."""
    if folder.is_dir():
        yield from (file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))


def _decides(name: str) -> bool:
    # External weights are called x.onnx_data (Optimum), x.onnx.data (torch), x.onnx_data_1 or x.data.
    # Graphs name such files; files of these names are part of a revision even if no graph names them.
    return ".onnx" in name or name.endswith((".json", ".spm", ".data")) or name == GGUF_MODEL or name in TEXT_FILES
