"""One of the several files of a corpus, read line by line, plain or compressed. Errors name the file and the line."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from jobs.corpus.lines import numbered_lines
from jobs.corpus.read_errors import naming
from jobs.corpus.unpacking import HashedBytes, unpacked
from jobs.errors import CorpusError

MAX_LINE_BYTES = 1 << 26  # a line is kept in memory


class LineFile:
    """A file that is read once, from start to end. Raises CorpusError where it cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes_read = 0  # stored bytes
        self.digest: str | None = None  # sha256 of the stored bytes, after the last line

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Each line that is not blank, with its number, from 1."""
        with naming(str(self.path)), open(self.path, "rb", buffering=0) as raw:
            hashed = HashedBytes(raw)
            with closing(unpacked(hashed, None)) as stream:
                for number, line in numbered_lines(stream, MAX_LINE_BYTES):
                    self.bytes_read = hashed.num_bytes
                    if line is None:
                        raise self.error(number, f"the line is longer than {MAX_LINE_BYTES:,} bytes; shorten it")
                    if line and not line.isspace():
                        yield number, line
            self.bytes_read, self.digest = hashed.num_bytes, hashed.digest()

    def error(self, number: int, what: str) -> CorpusError:
        """The error of a line; `what` says what is wrong and what to do."""
        return CorpusError(f"{self.path}, line {number}: {what}")
