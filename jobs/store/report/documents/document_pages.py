"""A page of a job's documents: those that meet a condition, in some order, from a cursor on.

What is read for a page is bounded, however many documents the job has: by an index, or by time (`scan`).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select

from jobs.errors import SpecError
from jobs.store.report.documents.document_order import Cursor, Key, Order, key_of
from jobs.store.report.documents.listed_documents import ListedDocument, read_listed
from jobs.store.report.job_summary import JobSummary
from jobs.store.schema.results import RESULTS, ResultTable
from jobs.store.schema.states import DocumentStatus
from jobs.store.schema.tables import Document
from jobs.store.where.condition import Condition
from jobs.store.where.values import VIEW

FIRST_WINDOW = 64  # rows; a document may be as long as a book
GROWTH = 4  # at most, from one window to the next


@dataclass(frozen=True, slots=True)
class SearchWindow:
    """The documents found in one look at a limited number of rows, and where the next look begins."""

    found: list[Cursor]  # in order, at most as many as asked for
    end: Cursor | None  # behind the last row looked at; None: nothing is left behind it


@dataclass(frozen=True, slots=True)
class Scan:
    """The documents that a search found within its time, and how far it came."""

    found: list[Cursor]
    stopped: Cursor | None  # the time was over here; None: enough was found, or nothing is left
    num_looked: int  # rows in the windows, at most


def scan(look: Callable[[Cursor, int, int], SearchWindow], start: Cursor, wanted: int, budget_s: float) -> Scan:
    """Call `look(where, width, wanted)` for windows of growing width, from `start` on, until `wanted` rows are found,
    nothing is left, or the next window would take longer than what is left of `budget_s`.

    Ten million documents cannot be searched while somebody waits for a page, so a page says how far it has looked, and
    goes on from there when asked.
    """
    found: list[Cursor] = []
    width, num_looked, until = FIRST_WINDOW, 0, time.monotonic() + budget_s
    while True:
        began = time.monotonic()
        window = look(start, width, wanted - len(found))
        found += window.found
        num_looked += width
        if len(found) >= wanted or window.end is None:
            return Scan(found, None, num_looked)
        start = window.end
        now = time.monotonic()
        # Half of what would fit: the next rows may be slower to read than these.
        fits = int(width * (until - now) / 2 / max(now - began, 1e-4))
        if fits < FIRST_WINDOW:
            return Scan(found, start, num_looked)
        width = min(width * GROWTH, fits)


BUDGET_S = 0.12  # of looking for the documents of a page
# Documents of a status are taken from the index of these if there are at most so many; else a scan meets them soon.
MAX_BY_STATUS = 20_000
# The largest job that is sorted without an index: 50,000 documents took a busy machine of 2 cores 30 ms, with a
# condition on a field up to 135 ms (SQLite; PostgreSQL 75; 2026-11-22).
MAX_SORTED = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which documents of a job, in which order."""

    condition: Condition | None = None  # resolved for the job
    status: str = ""  # the status that the condition asks for, if an index can find its documents
    error_code: str = ""
    order: Order = Order.POSITION
    search: str = ""  # what the excerpts of the texts are to show


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """Some documents in their order, and where the neighbouring pages begin."""

    documents: Sequence[ListedDocument]
    before: Cursor | None  # the page before ends here; None: there is none
    after: Cursor | None  # the page behind begins here; None: there is none
    stopped: Cursor | None  # the time was over when the search had come here
    num_looked: int  # documents looked at for this page, at most


def read_page(
    connection: Connection,
    job: JobSummary,
    selection: Selection,
    *,
    cursor: Cursor | None = None,
    backward: bool = False,
    num_documents: int = 50,
    budget_s: float = BUDGET_S,
) -> DocumentPage:
    """The documents behind `cursor`, or with `backward` those before it; without a cursor the first ones, or the last.

    Raises SpecError for an order in which the job is too large to be sorted.
    """
    found = find_cursors(connection, job, selection, cursor, backward, num_documents + 1, budget_s)
    cursors, has_more = found.found[:num_documents], len(found.found) > num_documents
    if backward:
        cursors.reverse()
    documents = read_listed(connection, job, [cursor.position for cursor in cursors], selection.search)
    beyond = (cursors[0] if backward else cursors[-1]) if has_more and cursors else None
    came_from = _edge(cursors, cursor, backward)
    return DocumentPage(
        documents=documents,
        before=beyond if backward else came_from,
        after=came_from if backward else beyond,
        stopped=found.stopped,
        num_looked=found.num_looked,
    )


def find_cursors(
    connection: Connection,
    job: JobSummary,
    selection: Selection,
    cursor: Cursor | None,
    backward: bool,
    wanted: int,
    budget_s: float,
) -> Scan:
    """The cursors of the documents that follow `cursor` (with `backward`, in the opposite order)."""
    search = _Search(connection, job, selection, backward)
    start = cursor or search.beginning
    if search.key is not None and not search.key.is_indexed:
        return search.sorted_whole(start, wanted)
    look = search.look_by_position if search.key is None else search.look_by_value
    if search.is_few:
        look = search.look_by_status
    return scan(look, start, wanted, budget_s)


def sortable(job: JobSummary) -> list[Order]:
    """The orders that a page of this job can have."""
    return [order for order in Order if _problem(order, job) is None]


def _problem(order: Order, job: JobSummary) -> str | None:
    try:
        key = key_of(order, RESULTS[job.task])
    except SpecError as error:
        return str(error)
    if key is None or key.is_indexed or job.documents <= MAX_SORTED:
        return None
    return (
        f"job {job.label} has {job.documents:,} documents, and up to {MAX_SORTED:,} can be sorted so; narrow an export"
        " down instead, and sort that"
    )


def _edge(cursors: Sequence[Cursor], came_from: Cursor | None, backward: bool) -> Cursor | None:
    """The side of a page that its reader comes from; None where the list begins (or ends) there."""
    if came_from is None:
        return None
    return (cursors[-1] if backward else cursors[0]) if cursors else came_from


class _Search:
    """The ways to find the next documents of a selection."""

    def __init__(self, connection: Connection, job: JobSummary, selection: Selection, backward: bool) -> None:
        if problem := _problem(selection.order, job):
            raise SpecError(problem)
        self._connection, self._job, self._selection, self._backward = connection, job, selection, backward
        self._result: ResultTable = RESULTS[job.task]
        self.key: Key | None = key_of(selection.order, self._result)
        self._descends = backward if self.key is None else self.key.descends is not backward
        condition = selection.condition
        self._condition = None if condition is None else condition.clause(connection.dialect.name)

    @property
    def beginning(self) -> Cursor:
        """The cursor before the first document."""
        if self.key is None:
            return Cursor(self._job.documents if self._backward else -1)
        return Cursor(0, float("inf") if self._descends else float("-inf"))

    @property
    def is_few(self) -> bool:
        """Whether the documents of the selection's status are so few that an index gives all of them."""
        selection = self._selection
        if self.key is not None or selection.status not in set(DocumentStatus):
            return False
        some = self._of_status().limit(MAX_BY_STATUS + 1).subquery()
        return self._connection.execute(select(func.count()).select_from(some)).scalar_one() <= MAX_BY_STATUS

    def look_by_status(self, start: Cursor, width: int, wanted: int) -> SearchWindow:
        """Among the `width` documents of a status behind `start`."""
        # Not the column itself: SQLite, and PostgreSQL without statistics, would walk the key past all other documents.
        position = Document.position + 0
        of_status = self._of_status().where(self._beyond(start, position))
        positions = self._positions(of_status.order_by(self._by_position(position)).limit(width))
        found = positions
        if self._condition is not None and positions:
            here = (VIEW.c.job_id == self._job.job_id, VIEW.c.position.in_(positions), self._condition)
            found = self._positions(select(VIEW.c.position).where(*here).order_by(self._by_position(VIEW.c.position)))
        end = Cursor(positions[-1]) if len(positions) == width else None
        return SearchWindow([Cursor(position) for position in found[:wanted]], end)

    def look_by_position(self, start: Cursor, width: int, wanted: int) -> SearchWindow:
        """Among the `width` documents behind `start` in the corpus."""
        if self._condition is None:
            width = wanted  # each is found
        end = start.position + (-width if self._backward else width)
        low, high = (end, start.position - 1) if self._backward else (start.position + 1, end)
        columns = Document.__table__.c if self._condition is None else VIEW.c
        here = [columns.job_id == self._job.job_id, columns.position >= low, columns.position <= high]
        if self._condition is not None:
            here.append(self._condition)
        statement = select(columns.position).where(*here).order_by(self._by_position(columns.position)).limit(wanted)
        found = [Cursor(position) for position in self._positions(statement)]
        is_over = end <= 0 if self._backward else end >= self._job.documents - 1
        return SearchWindow(found, None if is_over else Cursor(end))

    def look_by_value(self, start: Cursor, width: int, wanted: int) -> SearchWindow:
        """Among the `width` results behind `start` in the order of the values."""
        window = self._in_order(start).limit(wanted if self._condition is None else width)
        if self._condition is None:
            found = [Cursor(row[0], row[1]) for row in self._connection.execute(window)]
            return SearchWindow(found, None if len(found) < wanted else found[-1])
        statement = self._matching(window).limit(wanted)
        found = [Cursor(row[0], row[1]) for row in self._connection.execute(statement)]
        last = self._connection.execute(self._in_order(start).offset(width - 1).limit(1)).one_or_none()
        return SearchWindow(found, None if last is None else Cursor(last[0], last[1]))

    def sorted_whole(self, start: Cursor, wanted: int) -> Scan:
        """Among all documents of the job, which the database sorts."""
        behind = self._in_order(start)
        statement = behind if self._condition is None else self._matching(behind)
        rows = self._connection.execute(statement.limit(wanted)).all()
        return Scan([Cursor(row[0], row[1]) for row in rows], None, self._job.documents)

    def _in_order(self, start: Cursor) -> Select[Any]:
        """Positions and values of the results behind a cursor."""
        key, result = self._required_key(), self._result
        position: ColumnElement[int] = result.__table__.c.position
        order = (key.value.desc(), position.desc()) if self._descends else (key.value, position)
        here = [result.job_id == self._job.job_id, key.is_there]
        if start != self.beginning:
            here.append(key.beyond(start, position, self._descends))
        return select(position, key.value.label("value")).where(and_(*here)).order_by(*order)

    def _matching(self, window: Select[Any]) -> Select[Any]:
        """The documents of a window that meet the condition, in the order of the window."""
        assert self._condition is not None
        some = window.subquery("some")
        order = (some.c.value.desc(), some.c.position.desc()) if self._descends else (some.c.value, some.c.position)
        of_job = and_(VIEW.c.job_id == self._job.job_id, VIEW.c.position == some.c.position)
        return select(some.c.position, some.c.value).join(VIEW, of_job).where(self._condition).order_by(*order)

    def _positions(self, statement: Select[Any]) -> list[int]:
        return list(self._connection.execute(statement).scalars())

    def _of_status(self) -> Select[Any]:
        selection = self._selection
        here = [Document.job_id == self._job.job_id, Document.status == selection.status]
        if selection.error_code:
            here.append(Document.error_code == selection.error_code)
        return select(Document.position).where(*here)

    def _beyond(self, start: Cursor, position: Any) -> ColumnElement[bool]:
        found: ColumnElement[bool] = position < start.position if self._backward else position > start.position
        return found

    def _by_position(self, position: Any) -> ColumnElement[Any]:
        order: ColumnElement[Any] = position.desc() if self._backward else position.asc()
        return order

    def _required_key(self) -> Key:
        assert self.key is not None
        return self.key
