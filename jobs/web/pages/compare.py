"""/compare?a=1&b=2: two jobs side by side, of the first documents that a fraction of a second allows."""

import shlex
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from jobs.comparison.compare import Bounds, Comparison, Wanted, compare
from jobs.comparison.rankings import RankingAgreement
from jobs.comparison.record import as_record
from jobs.comparison.scores import ScoreShift
from jobs.comparison.words import Piece, around_changes, word_diff
from jobs.errors import KvjobsError, NotFoundError, SpecError
from jobs.store.database import Database
from jobs.store.report.documents.export import field_names
from jobs.store.report.job_summary import JobSummary, find_job, list_jobs
from jobs.store.report.live_job import find_live_job
from jobs.text.formatting import NOTHING, count, duration, figure, percent, speed, visible
from jobs.web.comparison_charts import distribution_chart, seconds_chart
from jobs.web.document_view.document_address import document_address
from jobs.web.rendering import JsonResponse, render, status_code_of
from jobs.web.same_origin import is_followed_link

OFFERED = 200  # newest jobs that the form offers
MAX_DOCUMENTS = 20_000
QUICK_S, LONGER_S = 0.12, 4.0  # that documents are read for: at first, and when asked for more
QUICK_PAGE, LONGER_PAGE = 200, 1000  # documents that are read between two looks at the clock
QUICK_PAGE_WITH_REFERENCE = 25  # chrF and BLEU of a document take about 2 ms
LARGEST = 10
CONTEXT, LONGEST_PIECE = 90, 600  # characters of a text around a change, and of a change
LONGEST_SOURCE, LONGEST_CANDIDATE = 400, 120
RANKS_SHOWN = 10

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Asked:
    """The jobs and the options that the address of the page asks for."""

    a: str  # number or name of a job; empty: none chosen yet
    b: str
    reference: str  # field of the corpus with reference translations
    longer: bool  # read for seconds, not for a moment

    @property
    def has_jobs(self) -> bool:
        return bool(self.a and self.b)


@router.get("/compare", response_model=None)
def page(
    request: Request,
    a: Annotated[str, Query(max_length=200)] = "",
    b: Annotated[str, Query(max_length=200)] = "",
    reference: Annotated[str, Query(max_length=500)] = "",
    longer: bool = False,
    job: Annotated[list[str] | None, Query(max_length=100)] = None,
) -> Response:
    """`job`: the two jobs that were ticked on the list of jobs, instead of `a` and `b`."""
    if job is not None and len(job) == 2:
        a, b = sorted(job, key=lambda reference: (len(reference), reference))
        return RedirectResponse(f"/compare?{urlencode({'a': a, 'b': b})}", 303)
    database: Database = request.app.state.database
    asked = Asked(a.strip(), b.strip(), reference, longer and not is_followed_link(request))
    found, problem, status_code = None, "", 200
    if job is not None:
        problem, status_code = f"to compare, tick two jobs on the list; {len(job)} were ticked", 400
    elif asked.has_jobs:
        try:
            found = _compare(database, asked, request.app.state.settings.lease_s)
        except KvjobsError as error:
            problem, status_code = str(error), status_code_of(error)
    shown = _shown(found, asked) if found else {}
    offered = _offered(database, found, asked)
    form = {"asked": asked, "offered": offered, "fields": _fields(database, found), "problem": problem}
    return render(request, "compare.html", form | {"found": found, "max_documents": MAX_DOCUMENTS} | shown, status_code)


@router.get("/compare.json", response_model=None)
def as_json(
    request: Request,
    a: Annotated[str, Query(max_length=200)],
    b: Annotated[str, Query(max_length=200)],
    reference: Annotated[str, Query(max_length=500)] = "",
    longer: bool = False,
) -> Response:
    state = request.app.state
    return JsonResponse(as_record(_compare(state.database, Asked(a, b, reference, longer), state.settings.lease_s)))


def _compare(database: Database, asked: Asked, silence_s: float) -> Comparison:
    """Raises NotFoundError for a job that is not there, and SpecError where the jobs cannot be compared."""
    with database.reading() as connection:
        a, b = (find_live_job(connection, reference, silence_s) for reference in (asked.a, asked.b))
    if asked.reference and asked.reference not in field_names(database, a.job_id):
        # Asking the whole corpus for a field would take too long for a page.
        raise SpecError(f"the first documents of job {a.label} have no field {asked.reference!r}")
    wanted = Wanted(largest=LARGEST, reference=asked.reference or None, with_test=asked.longer)
    quick_page = QUICK_PAGE_WITH_REFERENCE if asked.reference else QUICK_PAGE
    seconds, size = (LONGER_S, LONGER_PAGE) if asked.longer else (QUICK_S, quick_page)
    return compare(database, a, b, wanted, Bounds(documents=MAX_DOCUMENTS, seconds=seconds, page=size))


def _offered(database: Database, found: Comparison | None, asked: Asked) -> list[JobSummary]:
    """The jobs to choose from: the newest, and the compared ones. If one is chosen already, only jobs of its task."""
    with database.reading() as connection:
        try:
            alone = find_job(connection, asked.a) if asked.a and not asked.b else None
        except NotFoundError:
            alone = None
        newest = list_jobs(connection, task=alone.task if alone else None, limit=OFFERED)
    chosen = (found.a, found.b) if found else (alone,) if alone else ()
    return [*newest, *(job for job in chosen if job.job_id not in {newer.job_id for newer in newest})]


def _fields(database: Database, found: Comparison | None) -> list[str]:
    """Fields of the corpus that may hold references."""
    return field_names(database, found.a.job_id) if found and found.a.kind.is_between_languages else []


def _shown(found: Comparison, asked: Asked) -> dict[str, Any]:
    return {
        "tiles": _tiles(found),
        "rows": _rows(found),
        "distribution": distribution_chart(found),
        "seconds": seconds_chart(found.speed),
        "differences": [_difference(found, number) for number in range(len(found.largest))],
        "command": _command(found, asked),
    }


def _tiles(found: Comparison) -> list[dict[str, str]]:
    """The few numbers that answer most questions."""
    agreement, times = found.agreement, found.speed.times_as_fast
    if isinstance(agreement, ScoreShift):
        tiles = [("B - A in the mean", figure(agreement.mean, is_signed=True), agreement.unit)]
        median = agreement.quantiles["median"]
        tiles.append(("in the median", figure(median, is_signed=True), agreement.unit))
        a, b = agreement.a, agreement.b
        if agreement.is_per_token:
            tiles.append(("Perplexity", f"{figure(a.perplexity)} → {figure(b.perplexity)}", "A → B, together"))
        else:
            tiles.append(("Bits per byte", f"{figure(a.bits_per_byte)} → {figure(b.bits_per_byte)}", "A → B"))
    elif isinstance(agreement, RankingAgreement):
        tiles = [
            ("Same order", _share(agreement.identical, agreement.documents), "of queries"),
            ("Overlap of the first 10", _as_percent(agreement.overlap_at_10), ""),
            ("Rank-biased overlap", figure(agreement.rbo), ""),
            ("Kendall's tau", figure(agreement.kendall_tau), ""),
        ]
    else:
        tiles = [
            ("The same, to the byte", _share(agreement.identical, agreement.documents), "of translations"),
            ("Words that differ, on average", _as_percent(agreement.mean_changed), ""),
        ]
    tiles.append(("B's time by A's", NOTHING if not times else f"{figure(1 / times)} ×", "for the same text"))
    tiles.append(("Documents compared", count(found.coverage.compared), f"of {count(found.coverage.read)} read"))
    return [{"name": name, "value": value, "unit": unit} for name, value, unit in tiles]


def _rows(found: Comparison) -> list[dict[str, Any]]:
    """What the jobs were made of and what came of them, side by side."""
    rows: list[tuple[str, str, str, bool]] = [
        (contrast.name, _option(contrast.a), _option(contrast.b), contrast.differs) for contrast in found.contrasts
    ]
    rows += [
        ("documents", count(found.a.documents), count(found.b.documents), found.a.documents != found.b.documents),
        ("with a result", count(found.a.succeeded), count(found.b.succeeded), found.a.succeeded != found.b.succeeded),
        ("time", duration(found.speed.a_seconds), duration(found.speed.b_seconds), False),
        ("speed", speed(found.speed.a_tokens_per_s), speed(found.speed.b_tokens_per_s), False),
    ]
    rows += [(f"flag {flag}", count(a), count(b), a != b) for flag, a, b in found.flags]
    agreement = found.agreement
    if isinstance(agreement, ScoreShift):
        a, b = agreement.a, agreement.b
        if agreement.is_per_token:
            rows.append(("perplexity together", figure(a.perplexity), figure(b.perplexity), False))
        rows.append(("bits per byte together", figure(a.bits_per_byte), figure(b.bits_per_byte), False))
    return [{"name": name, "a": a, "b": b, "differs": differs} for name, a, b, differs in rows]


def _difference(found: Comparison, number: int) -> dict[str, Any]:
    """One of the largest differences, as the template shows it."""
    difference = found.largest[number]
    shown: dict[str, Any] = {
        "id": visible(difference.id) if difference.id is not None else f"position {difference.a_position}",
        "a_href": document_address(found.a.job_id, difference.a_position, difference.id, {}),
        "b_href": document_address(found.b.job_id, difference.b_position, difference.id, {}),
        "source": _source(difference.text, is_query=isinstance(found.agreement, RankingAgreement)),
    }
    if isinstance(found.agreement, ScoreShift):
        return shown | {
            "value": figure(difference.value, is_signed=True),
            "a": figure(difference.a),
            "b": figure(difference.b),
        }
    if isinstance(found.agreement, RankingAgreement):
        ranks_in_a = {candidate: rank for rank, candidate in enumerate(difference.a)}
        texts = _candidate_texts(difference.text)
        ranks = [
            {
                "a": visible(difference.a[rank]) if rank < len(difference.a) else NOTHING,
                "b": visible(difference.b[rank]) if rank < len(difference.b) else NOTHING,
                "a_text": texts.get(difference.a[rank], "") if rank < len(difference.a) else "",
                "b_text": texts.get(difference.b[rank], "") if rank < len(difference.b) else "",
                "moved": ranks_in_a[difference.b[rank]] - rank
                if rank < len(difference.b) and difference.b[rank] in ranks_in_a
                else None,
            }
            for rank in range(min(RANKS_SHOWN, max(len(difference.a), len(difference.b))))
        ]
        return shown | {"value": f"RBO {figure(1 - difference.value)}", "ranks": ranks}
    a, b = word_diff(difference.a, difference.b)
    return shown | {"value": f"{percent(difference.value)} of the words differ", "a": _pieces(a), "b": _pieces(b)}


def _pieces(pieces: list[Piece]) -> list[Piece]:
    return [
        Piece(visible(" ".join(piece.text.split("\n"))), piece.is_changed)
        for piece in around_changes(pieces, CONTEXT, LONGEST_PIECE)
    ]


def _source(payload: str | None, *, is_query: bool) -> str:
    """The beginning of what was processed; of a query its text, without the candidates."""
    text = payload or ""
    if is_query and payload:
        text = orjson.loads(payload)["query"]
    return _shortened(text, LONGEST_SOURCE)


def _shortened(text: str, longest: int) -> str:
    flat = " ".join(text.split())
    return visible(flat if len(flat) <= longest else f"{flat[:longest]}…")


def _candidate_texts(payload: str | None) -> dict[str, str]:
    """The beginning of the text of each candidate of a query, by its id."""
    given = orjson.loads(payload)["candidates"] if payload else ()
    return {candidate["id"]: _shortened(candidate.get("text") or "", LONGEST_CANDIDATE) for candidate in given}


def _command(found: Comparison, asked: Asked) -> str:
    """The command that reads all documents."""
    words = ["kvjobs", "compare", str(found.a.job_id), str(found.b.job_id)]
    return shlex.join([*words, *(["--reference", asked.reference] if asked.reference else [])])


def _option(value: Any) -> str:
    if value is None:
        return "default"
    return visible({True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value)


def _share(part: int, whole: int) -> str:
    return percent(part / whole) if whole else NOTHING


def _as_percent(share: float | None) -> str:
    return NOTHING if share is None else percent(share)
