"""A translation unit: a sentence of one language and its translation."""

import re
from dataclasses import dataclass

from jobs.errors import SpecError

_CODE = re.compile(r"[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+){0,8}", re.ASCII)  # of BCP 47, or as models write them
_MAX_CODE = 64
MAX_UNIT_CHARACTERS = 1 << 20  # of a text of a unit


@dataclass(frozen=True, slots=True)
class TranslationUnit:
    """A sentence and its translation. The languages are codes as their file has them: `en`, `de-AT`, `zho_Hans`."""

    source: str
    target: str
    source_language: str
    target_language: str


@dataclass(frozen=True, slots=True)
class BadUnit:
    """A unit that cannot be read."""

    line: int  # where it begins, from 1
    reason: str


@dataclass(frozen=True, slots=True)
class UnitLanguages:
    """The languages that a file's units have where the file does not say them, or that are read of several."""

    source: str | None = None
    target: str | None = None


class UnitFileError(SpecError):
    """A file of units that cannot be read at all."""


def checked_unit(unit: TranslationUnit, line: int) -> TranslationUnit | BadUnit:
    """The unit without white space around its texts, as sentences of a document have none; or why it is none."""
    source, target = unit.source.strip(), unit.target.strip()
    if not source or not target:
        return BadUnit(line, f"its {'translation' if source else 'source'} is empty")
    if max(len(source), len(target)) > MAX_UNIT_CHARACTERS:
        return BadUnit(line, f"it has more than {MAX_UNIT_CHARACTERS:,} characters")
    for code in (unit.source_language, unit.target_language):
        if len(code) > _MAX_CODE or not _CODE.fullmatch(code):
            return BadUnit(line, f"{code[:40]!r} is no code of a language")
    if "\0" in source + target:
        return BadUnit(line, "it holds a NUL character, which no database stores")
    return TranslationUnit(source, target, unit.source_language, unit.target_language)
