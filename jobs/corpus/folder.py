"""Which files of a folder are the corpus, and in which order.

    folder/                    every file in it and in the folders in it, part-2 before part-10
    'folder/part-*.jsonl.gz'   the files that the pattern matches, as a shell would find them; ** is any folders

The same holds of addresses: s3://bucket/folder/, 's3://bucket/part-*.jsonl.gz'.

What tools put beside a data set is left out: names that begin with . or _ (_SUCCESS), README, LICENSE, NOTICE, .md,
.json, .yaml. All others are of one format, by their names or by --format; the compression may differ.

Knows: names. Does not know: what is in the files.
"""

import glob
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from jobs.addresses.address import Address
from jobs.addresses.download import fetched
from jobs.addresses.listing import RemoteFile
from jobs.documents import quoted
from jobs.errors import CorpusError

IGNORED = re.compile(r"[._].*|(README|LICENSE|NOTICE)(\..*)?|.*\.(md|json|ya?ml)", re.IGNORECASE | re.DOTALL)
DIGITS = re.compile(r"(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class CorpusFile:
    path: Path
    name: str  # below the folder of the corpus, for messages
    shown: str = ""  # where it was fetched from; empty: it lies here

    def __str__(self) -> str:
        return self.shown or str(self.path)


AnyFile = CorpusFile | RemoteFile


def is_pattern(path: str) -> bool:
    """Whether `path` is a glob pattern; False if a file or folder of exactly that name exists."""
    return glob.has_magic(path) and not os.path.lexists(path)


def folder_of(path: str) -> str:
    """The folder of a corpus that is a folder or a pattern: of a pattern the one that its first sign stands in."""
    return os.path.dirname(re.split(r"[*?\[]", path, maxsplit=1)[0]) or "." if is_pattern(path) else path


def find_files(path: str, *, any_name: bool) -> list[CorpusFile]:
    """The files of a folder or of a pattern, in their order. `any_name`: the format is known, so that names that say
    nothing of it are not left out (part-00000, part-0.json). Raises CorpusError where there is none."""
    found = _matching(path) if is_pattern(path) else _below(path, any_name)
    files = [
        CorpusFile(Path(path), printable(name)) for path, name in sorted(found, key=lambda file: natural_key(file[1]))
    ]
    if not files:
        raise CorpusError(f"{path}: no file matches; check the pattern" if is_pattern(path) else f"{path}: {EMPTY}")
    if odd := next((file for file in files if not os.path.isfile(file.path)), None):
        raise CorpusError(f"{path}: {quoted(odd.name)} is not a file; take it out, or name the files by a pattern")
    return files


def choose_remote_files(
    address: Address, found: RemoteFile | Sequence[RemoteFile], *, any_name: bool
) -> RemoteFile | list[RemoteFile]:
    """What `find_remote` has found at an address: the object; or the list of those of a folder or a pattern, chosen and
    sorted as those of a folder here are. Raises CorpusError where there is none."""
    if isinstance(found, RemoteFile):
        return found
    is_left_out = _is_hidden if address.is_pattern else partial(_is_left_out, any_name=any_name)
    files = sorted((file for file in found if not is_left_out(file.name)), key=lambda file: natural_key(file.name))
    if not files:
        what = "no file matches; check the pattern" if address.is_pattern else EMPTY
        raise CorpusError(f"{address}: {what if found or address.is_pattern else NOTHING}")
    return [replace(file, name=printable(file.name)) for file in files]


@contextmanager
def local_files(files: Sequence[AnyFile], spool: Path) -> Iterator[list[CorpusFile]]:
    """The files, with copies in the folder `spool` of those that lie elsewhere, for as long as the block lasts. Raises
    CorpusError, KvjobsError."""
    remote = [file for file in files if isinstance(file, RemoteFile)]
    if not remote:
        yield [file for file in files if isinstance(file, CorpusFile)]
        return
    with fetched(remote, spool) as paths:
        copies = iter(paths)
        yield [
            CorpusFile(next(copies), file.name, str(file)) if isinstance(file, RemoteFile) else file for file in files
        ]


NOTHING = "there is no such file or folder; check the address"
EMPTY = "there is no file of documents in this folder; name a file, or a folder of .jsonl, .csv, .tsv, .txt or .parquet"


def digest_of_all(digests: Iterable[str]) -> str:
    """The digest of a corpus: sha256 over the digests of its files, in their order. File names do not count."""
    return hashlib.sha256("\n".join(["files", *digests]).encode()).hexdigest()


def printable(path: str) -> str:
    """A path for a message: what is not UTF-8 or not printable is escaped."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def natural_key(name: str) -> list[tuple[tuple[str | int, ...], str]]:
    """Sorts as people count: part-2 before part-10, folder by folder."""
    return [
        (tuple(int(piece) if odd % 2 else piece for odd, piece in enumerate(DIGITS.split(part))), part)
        for part in name.split("/")
    ]


def _matching(pattern: str) -> Iterator[tuple[str, str]]:
    folder = folder_of(pattern)
    for path in glob.iglob(pattern, recursive=True):
        if not os.path.isdir(path):
            yield path, os.path.relpath(path, folder)


def _below(folder: str, any_name: bool) -> Iterator[tuple[str, str]]:
    def refuse(error: OSError) -> None:
        raise error

    for here, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            if not _is_left_out(name, any_name):
                path = os.path.join(here, name)
                yield path, os.path.relpath(path, folder)


def _is_left_out(path: str, any_name: bool) -> bool:
    """Whether a file is none of the corpus, by its path below the folder."""
    *folders, name = path.split("/")
    if any(folder.startswith((".", "_")) for folder in folders):
        return True
    is_ignored = IGNORED.fullmatch(name) is not None
    return is_ignored and not (any_name and re.fullmatch(r"[^._].*\.json", name, re.DOTALL))


def _is_hidden(path: str) -> bool:
    """Whether a pattern does not match the path: it matches no name that begins with a dot."""
    return any(name.startswith(".") for name in path.split("/"))
