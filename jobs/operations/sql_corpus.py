"""The rows of a query of another database as a corpus: asked once, and written to a temporary file."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jobs.corpus.sql_source import SqlSource
from jobs.errors import KvjobsError
from jobs.operations.plan import CorpusFile
from jobs.system.private import make_folder


@dataclass(frozen=True, slots=True)
class OpenedQuery:
    """A query, and the file that its rows are written to."""

    asked: SqlSource
    stream: BinaryIO
    spool: Path  # its folder

    @property
    def file(self) -> CorpusFile:
        return CorpusFile(path="-", stream=self.stream, source=self.asked.source)

    def fetch(self) -> int:
        """Ask the database, and write the rows as JSON Lines; their number. Raises what `query_lines` raises, and
        KvjobsError where the disk is full."""
        from jobs.store.foreign_query import query_lines

        num_rows = 0
        for line in query_lines(self.asked.url, self.asked.name, self.asked.query):
            try:
                self.stream.write(line)
            except OSError as error:
                raise KvjobsError(
                    f"the rows cannot be written to {self.spool}: {error.strerror}; free some space there, or set "
                    "KVJOBS_HOME"
                ) from None
            num_rows += 1
        self.stream.flush()
        return num_rows


@contextmanager
def opened_query(given: str, query: str, spool: Path) -> Iterator[OpenedQuery]:
    """The query with an empty file in the folder `spool`, which disappears with the process however it ends. `given`:
    what --source says. Raises SpecError where that names no database, KvjobsError where the folder cannot be used."""
    asked = SqlSource.read(given, query)
    try:
        make_folder(spool)
        file = tempfile.TemporaryFile(dir=spool)  # noqa: SIM115  # closed below: this `try` is for the opening alone
    except OSError as error:
        raise KvjobsError(f"{spool} cannot be used: {error.strerror}; set KVJOBS_HOME") from None
    with file:
        yield OpenedQuery(asked, file, spool)
