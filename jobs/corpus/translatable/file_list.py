"""Which files of a path are translated as files, and which come along as they are.

    app.properties       one file
    manual/              every file in it and in the folders in it, but names that begin with a dot, and links; those of
                         a format are translated, the others (pictures) copied on export
    'manual/*.po'        the files that the pattern matches
    s3://bucket/manual/  also at addresses: s3://bucket/app.po, 's3://bucket/*.po', https://host/app.po

A folder that has files of documents (.jsonl, .csv, .txt ...) is read as those, unless the format `files` is asked for.

Knows: names. Does not know: what is in the files.
"""

import os
import re
from collections.abc import Iterator, Sequence
from itertools import filterfalse
from pathlib import Path

from jobs.addresses.address import Address
from jobs.addresses.listing import RemoteFile
from jobs.corpus.folder import IGNORED, AnyFile, CorpusFile, find_files, is_pattern, natural_key, printable
from jobs.documents import quoted
from jobs.errors import CorpusError
from jobs.files.formats import FORMATS, suffix_of

_PART = re.compile(r"part-\d{5}")  # as Spark and Hadoop name files of documents: part-00001.json is JSON lines


def find_translatable(path: str, *, is_asked: bool, documents: Sequence[str]) -> list[CorpusFile] | None:
    """The files of a path, by their names below it; None where it is read as documents, or does not exist. `is_asked`:
    the format `files` is; `documents`: the suffixes of files of documents. Raises CorpusError where both are meant,
    where no file is translated, and for a name that no row of the database can hold."""
    found: list[CorpusFile]
    if is_pattern(path):
        found = [file for file in find_files(path, any_name=True) if not os.path.islink(file.path)]
        if not is_asked and not _all_translated(found):
            return None
    elif os.path.isdir(path):
        found = [CorpusFile(Path(path, name), name) for name in sorted(_below(path), key=natural_key)]
        if not is_asked and not _is_of_files(path, [file.name for file in found], documents):
            return None
    elif not os.path.exists(path) or not _is_one(path, is_asked, documents):
        return None
    else:
        found = [CorpusFile(Path(os.path.realpath(path)), os.path.basename(path))]
    _check(found)
    return found


def choose_translatable(
    address: Address, found: RemoteFile | Sequence[RemoteFile], *, is_asked: bool, documents: Sequence[str]
) -> list[RemoteFile] | None:
    """The same of the object at an address, or of those of a folder or a pattern there."""
    if isinstance(found, RemoteFile):
        if not _is_one(found.name, is_asked, documents):
            return None
        chosen = [found]
    else:
        chosen = sorted(filterfalse(_is_hidden, found), key=lambda file: natural_key(file.name))
        if address.is_pattern:
            is_of_files = _all_translated(chosen)
        else:
            is_of_files = is_asked or _is_of_files(str(address), [file.name for file in chosen], documents)
        if not is_asked and not is_of_files:
            return None
    _check(chosen)
    return chosen


def links_below(folder: str) -> list[str]:
    """The names of the links in a folder, which are left out: what they lead to may lie anywhere."""
    return [name for name in _names_below(folder) if os.path.islink(os.path.join(folder, name))]


def _is_one(name: str, is_asked: bool, documents: Sequence[str]) -> bool:
    """Whether one file is translated as a file. Raises CorpusError where that is asked for and cannot be."""
    if suffix_of(os.path.basename(name)) is None:
        if is_asked:
            raise CorpusError(f"its name ends in none of the formats of files: {', '.join(FORMATS)}")
        return False
    return is_asked or not name.lower().endswith(tuple(documents))


def _is_hidden(file: RemoteFile) -> bool:
    return any(part.startswith(".") and part not in (".", "..") for part in file.name.split("/"))


def _all_translated(files: Sequence[AnyFile]) -> bool:
    return bool(files) and all(suffix_of(file.name) for file in files)


def _check(files: Sequence[AnyFile]) -> None:
    if not any(suffix_of(file.name) for file in files):
        raise CorpusError(f"none of its files is of a format that is translated: {', '.join(FORMATS)}")
    for file in files:
        check_name(file.name)


def _below(folder: str) -> Iterator[str]:
    for name in _names_below(folder):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and not os.path.islink(path):
            yield name


def _names_below(folder: str) -> Iterator[str]:
    def refuse(error: OSError) -> None:
        raise error

    for here, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if os.path.islink(os.path.join(here, name))]
        for name in (*names, *links):
            if not name.startswith("."):
                yield os.path.relpath(os.path.join(here, name), folder)


def _is_of_files(folder: str, names: Sequence[str], documents: Sequence[str]) -> bool:
    """Whether a folder is one of translated files. Those that lie beside data sets (README.md) do not make it one."""
    translated = [name for name in names if suffix_of(name)]
    of_documents = [
        name
        for name in names
        if _PART.match(os.path.basename(name)) or (name.lower().endswith(tuple(documents)) and not _is_beside(name))
    ]
    if not of_documents:
        return bool(translated)
    if (first := next((name for name in translated if not _is_beside(name)), None)) is None:
        return False
    raise CorpusError(
        f"there are files that are translated as files ({quoted(first)}) and files of documents "
        f"({quoted(of_documents[0])}) in {printable(folder)}; --format files translates the first and copies the "
        "others, and a pattern names some of them: 'FOLDER/*.jsonl'"
    )


def _is_beside(name: str) -> bool:
    last = os.path.basename(name)
    is_ignored = IGNORED.fullmatch(last) or last.lower().endswith(".xml")  # which may be anything
    return bool(is_ignored) or any(part.startswith("_") for part in name.split("/"))


def check_name(name: str) -> None:
    """Raise CorpusError for a name that no row of the database, or no folder, can hold."""
    if printable(name) != name:
        raise CorpusError(
            f"the file {printable(name)} has a name with a character that cannot be printed, or that is not UTF-8; "
            "rename it"
        )
    if name.startswith("/") or ".." in name.split("/"):
        raise CorpusError(f"the file {name} would lie outside of its folder; name the folder that it lies in")
    if {"", "."} & {*name.split("/")}:
        raise CorpusError(f"the name {name} has an empty part, so no folder can hold the file; rename it")
