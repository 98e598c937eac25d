"""The rows of a running query, read so many at a time that they fit into memory."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from jobs.errors import SpecError
from jobs.store.report.query.errors import translated_query_errors
from jobs.store.report.query.limits import HELD, LARGEST_ROW, ROW_TOO_LARGE, TimeLimit, row_bytes

MOST_ROWS = 100  # of a fetch

Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """A query that the database has begun to answer."""

    columns: Sequence[str]
    fetch: Callable[[int], Generator[Row]]  # the next rows, up to so many, one by one


def rows_of(running: RunningQuery, limit: TimeLimit) -> Generator[Row]:
    """All rows. Raises SpecError where one is larger than LARGEST_ROW."""
    count = 1
    while True:
        fetched = num_bytes = 0
        with closing(running.fetch(count)) as rows:
            for part, held in iter(partial(_part, rows, limit), ([], 0)):
                fetched += len(part)
                num_bytes += held
                yield from part
        if not fetched:
            return
        # While its reader has a part of a fetch, the server's clock goes on; so few of large rows are asked for.
        count = min(2 * count, MOST_ROWS, HELD * fetched // (num_bytes + 1) + 1)


def fetch_from(cursor: Iterator[Row], count: int) -> Generator[Row]:
    """The next rows of a cursor of the driver."""
    yield from islice(cursor, count)


def _part(rows: Iterator[Row], limit: TimeLimit) -> tuple[list[Row], int]:
    """The next rows of a fetch, up to HELD, and their size; the reader's time between two parts does not count."""
    part: list[Row] = []
    held = 0
    with translated_query_errors(limit), limit:
        for row in rows:
            part.append(row)
            num_bytes = row_bytes(row)
            if num_bytes > LARGEST_ROW:
                raise SpecError(ROW_TOO_LARGE)
            held += num_bytes
            if held > HELD:
                break
    return part, held
