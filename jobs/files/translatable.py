"""What a format of files makes of a file: its units, and the file again with other texts in their places.

Knows: units. Does not know: formats, documents, models.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from jobs.errors import CorpusError
from jobs.text.markup import Markup as Markup


class ForeignFile(CorpusError):
    """The file has the suffix of a format and is none of it: it is copied as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A text of a file that is translated as one document."""

    name: str  # of this unit alone in its file, and the same when the file is read again: a key, a number
    text: str  # with its markup as it stands in the file
    markup: Markup = Markup.NONE
    context: str | None = None  # what a translator sees beside it: a comment, a message context
    max_chars: int | None = None  # what its place holds


class TranslatableFile(Protocol):
    """A file that was read."""

    @property
    def units(self) -> Sequence[Unit]:
        """In the order of the file."""

    def write(self, texts: Sequence[str | None], language: str | None = None) -> bytes:
        """The file with `texts` in the places of the units, in their order; None leaves a unit as it is. With the text
        of each unit itself, and no language, it is the file that was read, byte for byte.

        `language`: of the texts (`de`, `pt-BR`), where the format says it. Raises SpecError for a text that the format
        cannot hold."""


class FileFormat(Protocol):
    """A format: what a program calls with the bytes of a file."""

    name: str
    suffixes: tuple[str, ...]  # in lower case: ".po"

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The units of a file; with `again` those that have a translation already, too (gettext, XLIFF). Raises
        CorpusError, with the line where there is one, for a file that is broken or dangerous, and ForeignFile for
        one of another kind."""
