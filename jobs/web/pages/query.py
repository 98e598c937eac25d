"""/query: a question in SQL, which reads and can do nothing else; its answer as a table, a chart, CSV or JSON."""

import dataclasses
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Annotated, Any, BinaryIO
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from starlette.background import BackgroundTask
from starlette.responses import HTMLResponse, Response, StreamingResponse

from jobs.errors import KvjobsError, NotFoundError, SpecError, TransientError
from jobs.store.database import Database
from jobs.store.report.query.parameters import parameter_names
from jobs.store.report.query.query import Answer, AnswerLimits, answer, run_query
from jobs.store.report.query.saved_queries import SavedQuery, saved_queries, saved_query
from jobs.text.csv_text import csv_cell, csv_line
from jobs.text.formatting import size
from jobs.text.json_text import to_json
from jobs.web.answers import cells_of, chart_of, columns_of
from jobs.web.rendering import JsonResponse, render, status_code_of
from jobs.web.same_origin import is_followed_link

PREFIX = "p."  # of the values of parameters in an address, so that a parameter may have any name
SHOWN_ROWS, MOST_SHOWN_ROWS = 100, 1000
MOST_DOWNLOADED_ROWS = 1_000_000
SECONDS, MOST_SECONDS = 10.0, 60.0
PAGE_BYTES, JSON_BYTES, CSV_BYTES = 4_000_000, 64_000_000, 256_000_000
AT_ONCE = 4  # queries that run at the same time: other pages need threads and connections too
WAIT_S = 2.0  # for a place among them
CHUNK = 1 << 16
LIMITS = {"rows": MOST_SHOWN_ROWS, "usual_rows": SHOWN_ROWS, "seconds": MOST_SECONDS, "prefix": PREFIX}

router = APIRouter()
_slots = threading.BoundedSemaphore(AT_ONCE)


@dataclass(frozen=True, slots=True)
class Question:
    """The query that an address of the page asks for."""

    sql: str
    saved: SavedQuery | None
    values: Mapping[str, str]  # of the parameters in `sql`; those without a value are missing
    names: list[str]  # of the parameters in `sql`
    rows: int | None  # at most
    seconds: float
    x: str
    y: str
    problem: str = ""  # why the saved question cannot be asked: there is no such job

    @property
    def missing(self) -> list[str]:
        """The parameters without a value."""
        return [name for name in self.names if name not in self.values]

    @property
    def is_complete(self) -> bool:
        """Whether it can be asked."""
        return bool(self.sql.strip()) and not self.missing and not self.problem

    @property
    def download(self) -> str:
        """The parameters of the addresses that give the whole answer as a file."""
        values = {PREFIX + name: value for name, value in self.values.items()}
        return urlencode({"sql": self.sql, **values, "timeout": f"{MOST_SECONDS:g}"})


def read_question(
    request: Request,
    sql: Annotated[str, Query(max_length=15_000)] = "",
    saved: Annotated[str, Query(max_length=100)] = "",
    limit: Annotated[int | None, Query(ge=1, le=MOST_DOWNLOADED_ROWS)] = None,
    timeout: Annotated[float, Query(gt=0, le=MOST_SECONDS)] = SECONDS,
    x: Annotated[str, Query(max_length=200)] = "",
    y: Annotated[str, Query(max_length=200)] = "",
) -> Question:
    """What the address asks. Raises NotFoundError where there is no saved question of that name."""
    database: Database = request.app.state.database
    dialect, problem = database.engine.dialect.name, ""
    given = {name[len(PREFIX) :]: value for name, value in request.query_params.items() if name.startswith(PREFIX)}
    found = saved_query(saved) if saved and not sql else None
    if found:
        sql = found.sql_for(dialect)
        x, y = x or found.chart.get("x", ""), y or found.chart.get("y", "")
        try:
            with database.reading() as connection:
                given = found.values(connection, given)
        except (NotFoundError, SpecError) as error:
            problem = str(error)
    else:
        found = next(
            (question for question in saved_queries().values() if question.sql_for(dialect).split() == sql.split()),
            None,
        )
    names = parameter_names(sql, is_sqlite=database.is_sqlite)
    values = {name: given[name] for name in names if name in given}
    return Question(sql, found, values, names, limit, timeout, x, y, problem)


Asked = Annotated[Question, Depends(read_question)]


@router.get("/query", response_class=HTMLResponse)
def page(request: Request, asked: Asked) -> Response:
    """The form, and the answer where something is asked. Behind a link on another site the question is shown alone: the
    visitor runs it, or not."""
    is_run = asked.is_complete and not is_followed_link(request)
    shown: dict[str, Any] = {"asked": asked, "groups": _groups(), "limits": LIMITS, "answer": None}
    shown["is_unread"] = asked.is_complete and not is_run
    problem, status_code = asked.problem, 400 if asked.problem else 200
    if is_run:
        limits = AnswerLimits(min(asked.rows or SHOWN_ROWS, MOST_SHOWN_ROWS), asked.seconds, PAGE_BYTES)
        try:
            shown |= _shown(_answer(request, asked, limits), asked)
        except KvjobsError as error:
            problem, status_code = str(error), status_code_of(error)
    return render(request, "query.html", shown | {"problem": problem}, status_code)


@router.get("/query.json")
def as_json(request: Request, asked: Asked) -> Response:
    """The answer; without a question the saved ones."""
    if not asked.sql.strip():
        return JsonResponse({"saved": [dataclasses.asdict(question) for question in saved_queries().values()]})
    _require_complete(asked)
    found = _answer(request, asked, AnswerLimits(asked.rows or MOST_DOWNLOADED_ROWS, asked.seconds, JSON_BYTES))
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    body = to_json({"columns": found.columns, "rows": rows, "is_cut": found.is_cut, "seconds": found.seconds})
    return Response(body + b"\n", media_type="application/json")


@router.get("/query.csv")
def as_csv(request: Request, asked: Asked, raw: bool = False) -> Response:
    """The answer as CSV; unless `raw`, a text that a spreadsheet would take for a formula has an apostrophe before it.

    It is written to a file first: so an error is an answer of its own, never the end of half a file, and no database
    waits for a slow reader.
    """
    _require_complete(asked)
    file = tempfile.TemporaryFile(prefix="kvjobs-query-")  # noqa: SIM115 - closed when it is sent
    try:
        with (
            _query_slot(),
            run_query(request.app.state.database, asked.sql, asked.values, asked.seconds) as found,
        ):
            _write_csv(file, found.columns, islice(found.rows, asked.rows or MOST_DOWNLOADED_ROWS), defuse=not raw)
    except BaseException:
        file.close()
        raise
    name = asked.saved.name if asked.saved else "query"
    headers = {
        "content-disposition": f'attachment; filename="kvjobs-{name}.csv"',
        "content-length": str(file.tell()),
    }
    file.seek(0)
    chunks = iter(lambda: file.read(CHUNK), b"")
    return StreamingResponse(chunks, 200, headers, "text/csv; charset=utf-8", BackgroundTask(file.close))


def _require_complete(asked: Question) -> None:
    if not asked.sql.strip():
        raise SpecError("the address has no query: ?sql=...")
    if asked.problem:
        raise SpecError(asked.problem)
    if asked.missing:
        name = asked.missing[0]
        raise SpecError(f"the query asks for :{name}; give its value: &{PREFIX}{name}=VALUE")


def _answer(request: Request, asked: Question, limits: AnswerLimits) -> Answer:
    with _query_slot():
        return answer(request.app.state.database, asked.sql, asked.values, limits)


@contextmanager
def _query_slot() -> Iterator[None]:
    """Wait until fewer than `AT_ONCE` queries run. Raises TransientError after `WAIT_S`."""
    if not _slots.acquire(timeout=WAIT_S):
        raise TransientError(f"{AT_ONCE} queries run already, which is the limit; try again when one has ended")
    try:
        yield
    finally:
        _slots.release()


def _write_csv(file: BinaryIO, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, defuse: bool) -> None:
    for cells in chain([columns], rows):
        line = csv_line([csv_cell(cell, defuse=defuse) for cell in cells])
        file.write(line.encode("utf-8", "backslashreplace"))
        if file.tell() > CSV_BYTES:
            raise SpecError(
                f"the answer is larger than {size(CSV_BYTES)}; ask for fewer rows, or write it with kvjobs query --csv"
            )


def _shown(found: Answer, asked: Question) -> dict[str, Any]:
    columns = columns_of(found)
    return {
        "answer": found,
        "columns": columns,
        "rows": cells_of(found),
        "chart": chart_of(found, columns, asked.x, asked.y),
        "heights": [column.name for column in columns if column.is_number],
    }


def _groups() -> list[tuple[str, list[SavedQuery]]]:
    """The saved questions, grouped by their topic."""
    every = list(saved_queries().values())
    return [
        (about, [question for question in every if question.about == about])
        for about in dict.fromkeys(question.about for question in every)
    ]
