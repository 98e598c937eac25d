"""What every reader of a corpus can do.

Knows: what a submit needs of it. Does not know: formats, files.
"""

from collections.abc import Iterator
from typing import Protocol

from jobs.documents import Record


class RecordReader(Protocol):
    """The records of a corpus; each iteration reads from the start. Raises CorpusError where it cannot be read."""

    @property
    def source(self) -> str:
        """The corpus, for messages."""
        ...

    @property
    def lines_read(self) -> int:
        """Lines, or rows, read so far; blank ones too."""
        ...

    @property
    def bytes_read(self) -> int:
        """Stored bytes read so far."""
        ...

    def __iter__(self) -> Iterator[Record]: ...

    def digest(self) -> str:
        """Digest of the bytes that the records were made of, after the last record."""
        ...

    def first_lines(self) -> list[bytes]:
        """The first lines that are not blank, of what was read so far; none where the corpus has no lines."""
        ...

    def place_of(self, line: int) -> str:
        """Where a record's line is, for messages: "line 7"."""
        ...
