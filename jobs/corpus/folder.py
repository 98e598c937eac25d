"""Which files of a folder are the corpus, and in which order.

    folder/                    every file in it and in the folders in it, part-2 before part-10
    'folder/part-*.jsonl.gz'   the files that the pattern matches, as a shell would find them; ** is any folders

What tools put beside a data set is left out: names that begin with . or _ (_SUCCESS), README, LICENSE, NOTICE, .md,
.json, .yaml. All others are of one format, by their names or by --format; the compression may differ.

Knows: names. Does not know: what is in the files.
"""

import glob
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from jobs.documents import quoted
from jobs.errors import CorpusError

IGNORED = re.compile(r"[._].*|(README|LICENSE|NOTICE)(\..*)?|.*\.(md|json|ya?ml)", re.IGNORECASE | re.DOTALL)
DIGITS = re.compile(r"(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class CorpusFile:
    path: Path
    name: str  # below the folder of the corpus, for messages


def is_pattern(path: str) -> bool:
    """Whether `path` is a glob pattern; False if a file or folder of exactly that name exists."""
    return glob.has_magic(path) and not os.path.lexists(path)


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
    before_signs = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    folder = os.path.dirname(before_signs) or "."
    for path in glob.iglob(pattern, recursive=True):
        if not os.path.isdir(path):
            yield path, os.path.relpath(path, folder)


def _below(folder: str, any_name: bool) -> Iterator[tuple[str, str]]:
    def refuse(error: OSError) -> None:
        raise error

    for here, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            if IGNORED.fullmatch(name) and not (any_name and re.fullmatch(r"[^._].*\.json", name, re.DOTALL)):
                continue
            path = os.path.join(here, name)
            yield path, os.path.relpath(path, folder)
