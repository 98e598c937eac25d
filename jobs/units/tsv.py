r"""
Units as tab-separated values in UTF-8: source, translation, and where they differ their languages.

    source  target  source_language  target_language     a first line of names, in any order, others are passed over
    Rain.   Regen.  en               de

Nothing is quoted: a sentence may begin with a quotation mark. Backslash, tab and line ends within a text are written
\\, \t, \n and \r, as in exports of results.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from jobs.units.translation_unit import (
    MAX_UNIT_CHARACTERS,
    BadUnit,
    TranslationUnit,
    UnitFileError,
    UnitLanguages,
    checked_unit,
)

_NAMES = ("source", "target", "source_language", "target_language")
_ESCAPE = re.compile(r"\\([\\tnr])")
_ESCAPED = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}
_MAX_LINE_BYTES = 8 * MAX_UNIT_CHARACTERS + 1_000


def read_tsv(stream: BinaryIO, languages: UnitLanguages) -> Iterator[TranslationUnit | BadUnit]:
    """The units of a file, one a line; blank lines are passed over. A first line that names `source` and `target` says
    which column is what; without one they are the first two, and the languages the next two.

    `languages`: of all lines whose own columns do not say one; of lines that do, those alone. Raises UnitFileError
    where a file without columns of languages is read without them.
    """
    at = {name: index for index, name in enumerate(_NAMES)}
    number = 0
    while line := stream.readline(_MAX_LINE_BYTES):
        number += 1
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if len(line) >= _MAX_LINE_BYTES and not line.endswith(b"\n"):
            while (rest := stream.readline(_MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield BadUnit(number, f"it has more than {_MAX_LINE_BYTES:,} bytes")
            continue
        if not line.strip():
            continue
        try:
            cells = line.rstrip(b"\r\n").decode().split("\t")
        except UnicodeDecodeError:
            yield BadUnit(number, "it is not UTF-8")
            continue
        if number == 1 and {"source", "target"} <= {*cells}:
            at = {name: cells.index(name) for name in _NAMES if name in cells}
            continue
        unit = _unit(cells, at, languages, number)
        if unit is not None:
            yield unit


def _unit(
    cells: list[str], at: dict[str, int], languages: UnitLanguages, number: int
) -> TranslationUnit | BadUnit | None:
    """The unit of a line; None: it is of other languages than those that are read."""
    found = {name: _unescaped(cells[index]) for name, index in at.items() if index < len(cells)}
    if "source" not in found or "target" not in found:
        return BadUnit(number, "it has no tab between a source and a translation")
    codes = []
    for side, wanted in (("source", languages.source), ("target", languages.target)):
        own = found.get(f"{side}_language", "").strip()
        if own and wanted and own.replace("_", "-").lower() != wanted.replace("_", "-").lower():
            return None
        if not own and not wanted:
            raise UnitFileError(
                f"line {number}: it does not say the {side}'s language: give --{side}-language, or a column "
                f"{side}_language"
            )
        codes.append(own or str(wanted))
    return checked_unit(TranslationUnit(found["source"], found["target"], *codes), number)


def _unescaped(cell: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED[match[1]], cell) if "\\" in cell else cell


def write_tsv(units: Iterable[TranslationUnit], write: Callable[[bytes], object]) -> int:
    """Write the units with a line of names, and return how many."""
    write(("\t".join(_NAMES) + "\n").encode())
    number = 0
    for unit in units:
        number += 1
        cells = (unit.source, unit.target, unit.source_language, unit.target_language)
        write(("\t".join(map(_escaped, cells)) + "\n").encode())
    return number


def _escaped(text: str) -> str:
    for character, written in (("\\", r"\\"), ("\t", r"\t"), ("\n", r"\n"), ("\r", r"\r")):
        text = text.replace(character, written)
    return text
