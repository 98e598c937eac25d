r"""
A glossary as the value of an option: its digest, and where it is submitted its terms.

    terms.tsv     source  target  forms  case  words  source_language  target_language     below a line of names,
                  rain    Regen   Regens|Regenfall                                         or the first five in order
    terms.tbx     TBX of any version
    terms.txt     of `--no-translate`: a term a line

The digest is of the terms, in one order: a file whose lines are in another order is the same glossary.
"""

import gzip
import hashlib
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs.errors import SpecError
from jobs.terms.tbx import read_tbx
from jobs.terms.term import MAX_TERMS, GlossaryError, Term, checked

MAX_BYTES = 1 << 25
_GZIP = b"\x1f\x8b"
_REFERENCE = re.compile(r"sha256:([0-9a-f]{64})")
_NAMES = ("source", "target", "forms", "case", "words", "source_language", "target_language", "subset")
_WITHOUT_NAMES = _NAMES[:5]
_CASES = {"": False, "insensitive": False, "sensitive": True}
_WORDS = {"": True, "whole": True, "part": False}


@dataclass(frozen=True, slots=True)
class Glossary:
    """Terms by their digest. Two with the same terms are equal."""

    digest: str  # sha256, in hexadecimal digits
    content: bytes | None = field(default=None, compare=False)  # the terms; None: the database has them

    def __str__(self) -> str:
        return f"sha256:{self.digest}"

    def __repr__(self) -> str:
        return f"Glossary({self.digest}, {len(self.content or b'')})"

    @property
    def num_terms(self) -> int:
        """How many terms it has, of one that has them."""
        assert self.content is not None
        return self.content.count(b"\n") + 1

    def terms(self) -> list[Term]:
        """The terms, of a glossary that has them."""
        assert self.content is not None
        lines = self.content.decode().splitlines()
        return [Term(source, tuple(targets), *rest) for source, targets, *rest in map(json.loads, lines)]

    @classmethod
    def of(cls, terms: Iterable[Term]) -> "Glossary":
        """The glossary of these terms. Raises GlossaryError where there is none."""
        lines = sorted(json.dumps(_plain(term), separators=(",", ":")) for term in terms)
        if not lines:
            raise GlossaryError("it has no term")
        content = "\n".join(lines).encode()
        return cls(hashlib.sha256(content).hexdigest(), content)


def read_glossary(value: Any) -> Glossary:
    """The glossary of an option's value: itself, the reference `sha256:...` of a stored one, the text of a file, an
    object of terms with their translations (or a list of these). Raises SpecError."""
    return _read(value, _read_text)


def read_kept_terms(value: Any) -> Glossary:
    """The same of `--no-translate`: the text of a file with a term a line, or a list of terms."""
    return _read(value, _read_lines)


def is_reference(value: str) -> bool:
    """Whether a text names a glossary that the database has."""
    return _REFERENCE.fullmatch(value) is not None


def path_in(value: Any) -> Path | None:
    """The path of a program's value for a glossary: of a text, where it is one line and no reference."""
    if isinstance(value, os.PathLike):
        return Path(value)
    is_path = isinstance(value, str) and not is_reference(value) and not {"\n", "\t"} & {*value}
    return Path(value) if is_path else None


def read_glossary_file(path: Path, read: Callable[[Any], Glossary]) -> Glossary:
    """The glossary of a file, `.gz` or not; `read` is one of the two above. Raises SpecError, which names the file."""
    try:
        return read(text_of_file(path))
    except GlossaryError as error:
        raise SpecError(f"{path}: {error}") from None


def text_of_file(path: Path) -> str:
    """The text of a file, `.gz` or not. Raises SpecError, which names the file."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror or error}") from None
    try:
        return text_of_bytes(content)
    except GlossaryError as error:
        raise SpecError(f"{path}: {error}") from None


def text_of_bytes(content: bytes) -> str:
    """The text of what is in a file, compressed with gzip or not. Raises GlossaryError."""
    if content[:2] == _GZIP:
        try:
            with gzip.open(io.BytesIO(content)) as stream:
                content = stream.read(MAX_BYTES + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise GlossaryError(f"it is no complete gzip file: {error}") from None
    if len(content) > MAX_BYTES:
        raise GlossaryError(f"it has more than {MAX_BYTES:,} bytes; a glossary has at most {MAX_TERMS:,} terms")
    try:
        return content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise GlossaryError(f"line {line}: it is not UTF-8; save it as UTF-8") from None


def _read(value: Any, of_text: Callable[[str], Iterable[tuple[Term, int]]]) -> Glossary:
    if isinstance(value, Glossary):
        return value
    if isinstance(value, Mapping | list | tuple):
        return Glossary.of(_unique(_of_list(_listed(value))))
    if not isinstance(value, str):
        raise SpecError("it is neither a text nor a list of terms")
    if found := _REFERENCE.fullmatch(value):
        return Glossary(found[1])
    if len(value) > MAX_BYTES:
        raise GlossaryError(f"it has more than {MAX_BYTES:,} characters; the most is {MAX_TERMS:,} terms")
    return Glossary.of(_unique(of_text(value)))


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GlossaryError(f"it is no JSON ({error})") from None


def _listed(value: Any) -> Iterable[Any]:
    return list(value.items()) if isinstance(value, Mapping) else value


def _of_list(values: Iterable[Any]) -> Iterator[tuple[Term, int]]:
    for number, value in enumerate(values, start=1):
        pair = (value, value) if isinstance(value, str) else value
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise GlossaryError(f"line {number}: it is no term with a translation")
        yield (_kept(value) if isinstance(value, str) else _term(pair[0], pair[1].split("|"))), number


def _read_text(text: str) -> Iterator[tuple[Term, int]]:
    match text.lstrip("\ufeff \t\r\n")[:1]:
        case "<":
            return read_tbx(text)
        case "{" | "[":  # as query strings have what is an object in Python
            return _of_list(_listed(_from_json(text)))
    return _read_tsv(text)


def _read_lines(text: str) -> Iterator[tuple[Term, int]]:
    if text.lstrip().startswith('["'):
        yield from _of_list(_from_json(text))
        return
    for number, line in _lines(text):
        yield _kept(line), number


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers."""
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if line.strip():
            yield number, line.removesuffix("\r")


def _read_tsv(text: str) -> Iterator[tuple[Term, int]]:
    at = {name: index for index, name in enumerate(_WITHOUT_NAMES)}
    is_first = True
    for number, line in _lines(text):
        cells = [cell.strip() for cell in line.split("\t")]
        names = [cell.lower() for cell in cells]
        if is_first and {"source", "target"} <= {*names}:
            at = {name: names.index(name) for name in _NAMES if name in names}
        else:
            yield _of_cells(cells, at, number), number
        is_first = False


def _of_cells(cells: list[str], at: Mapping[str, int], number: int) -> Term:
    found = {name: cells[index] for name, index in at.items() if index < len(cells)}
    if "source" not in found or "target" not in found:
        raise GlossaryError(f"line {number}: it has no tab between a term and its translation")
    for name, known in (("case", _CASES), ("words", _WORDS)):
        if (given := found.get(name, "").lower()) not in known:
            raise GlossaryError(
                f"line {number}: {name} is {given[:30]!r}; it can be {' or '.join(filter(None, known))}, or empty"
            )
    forms = found.get("forms", "")
    case = found.get("case", "").lower()
    term = _term(found["source"], [*found["target"].split("|"), *(forms.split("|") if forms else ())])
    return Term(
        term.source,
        term.targets,
        _CASES[case] if case else term.source_is_cased,
        _CASES[case],
        _WORDS[found.get("words", "").lower()],
        found.get("source_language", ""),
        found.get("target_language", ""),
        found.get("subset", ""),
    )


def _term(source: str, targets: Iterable[str]) -> Term:
    """A term for which no case is given: one that is written in capitals alone (US, WHO) is so in a text."""
    source = source.strip()
    is_cased = source.isupper() and sum(map(str.isalpha, source)) > 1
    return Term(source, tuple(dict.fromkeys(target.strip() for target in targets)), source_is_cased=is_cased)


def _kept(text: str) -> Term:
    """A term that stays as it is."""
    return Term(text.strip(), (text.strip(),), source_is_cased=True, target_is_cased=True)


def _unique(found: Iterable[tuple[Term, int]]) -> list[Term]:
    """The terms, each once. Raises GlossaryError for one with two translations, and for too many."""
    lines: dict[tuple[Any, ...], tuple[Term, int]] = {}
    for number, (given, line) in enumerate(found, start=1):
        if number > MAX_TERMS:
            raise GlossaryError(f"line {line}: it has more than {MAX_TERMS:,} terms, which is the most")
        term = checked(given, line)
        source = term.source if term.source_is_cased else term.source.casefold()
        languages = (term.source_language.lower(), term.target_language.lower())
        key = (source, term.source_is_cased, *languages, term.subset)
        first, first_line = lines.setdefault(key, (term, line))
        if first.targets != term.targets:
            raise GlossaryError(
                f"line {line}: {term.source[:40]!r} is {term.targets[0][:40]!r}, and in line {first_line} "
                f"{first.targets[0][:40]!r}; write both in one line, the second as a form"
            )
    return [term for term, _line in lines.values()]


def _plain(term: Term) -> list[Any]:
    """Its fields, without those at the end that are empty."""
    values = [getattr(term, name) for name in Term.__slots__]
    return values if term.subset else values[:-1]
