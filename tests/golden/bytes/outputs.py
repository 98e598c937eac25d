"""Everything that shows or writes jobs, as named bytes: exports, commands, pages with their JSON, generated text."""

import io
import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from jobs.choices import Only
from jobs.cli.context import Context
from jobs.cli.main import run
from jobs.errors import KvjobsError
from jobs.export.export_formats import Format
from jobs.export.export_options import Export
from jobs.export.originals import Addition
from jobs.export.result_columns import Extra, addable, shape_of
from jobs.export.result_lines import result_lines
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.report.documents.document_order import Order
from jobs.store.report.documents.export import read_documents
from jobs.store.report.job_summary import JobSummary, find_chain, list_jobs
from jobs.store.report.query.saved_queries import saved_queries
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.where.condition import Condition
from jobs.store.where.values import COLUMNS, VIEW
from jobs.web.app import Options, create_app
from tests.places import CHECKOUT

Outputs = Iterator[tuple[str, bytes]]  # name, as of a file in a folder; content

# What each command is asked of every job, of one that is named here, or of the database.
OF_EVERY_JOB = """
show {job}
show {job} --json
"""
OTHERS = """
ls
ls --all --json
ls --csv
ls -q --limit 2
ls --state failed --json
steps plain
steps pivot --by step --csv
steps plain --by lane --json
steps 13
totals plain
watch plain
wait plain
wait running --timeout 0
totals score --by lang
totals score --by lang --json
totals score --by n --csv
totals score --by nothing
totals pairs --json
compare plain pivot
compare score pairs --json
compare rank encoder
compare rank encoder --json
compare ask chat --csv
compare plain answered --csv
metrics rank --qrels qrels.txt --json
submit --help
export --help
query --help
export plain --where 'nosuch = 1'
export plain --format nosuch
export plain --chain
export chain --chain
export waiting
worker ls
worker ls --json
worker ping --json
db prune nobody
query 'select job_id, name, state, succeeded from v_jobs order by job_id'
query 'select id, status, translation, fields from v_documents order by job_id, position' --json
query 'select * from v_phases order by phase, job_id' --csv
"""
# One job for each form that results have; the others differ in their states and providers.
SHAPES = ("plain", "pivot", "score", "rank", "ask", "13")
WHERES = (
    "contains(text, '<script>') or lower(id) = 'd0'",
    "n > 1 and lang in ('de', 'fr')",
    "meta.a is not null",
    "fields.status = 'own' or provider <> 'onnx'",
    "-log_prob / num_target_tokens < 1",
    "perplexity < 50 and bits_per_byte between 0.1 and 2",
    "finished_at > '2026-11-20 08:01:00' and not (flags = '' or flags is null)",
    "length(text) % 2 = 1 and coalesce(translation, generation, error, '') <> ''",
)
FILTERS = ("search=script", "status=failed", "code=engine-error", "flag=truncated", "field=lang&value=en")
FILTERS += ("min_perplexity=1.5&max_perplexity=40", "min_length=6", "where=position%20%3E%201%20and%20nosuch%20%3D%201")


def outputs(database: Database, home: Path, *, is_whole: bool) -> Outputs:
    """Of a database that `make_jobs` has filled; `home` is the working directory. Not whole: without the forms that the
    rows of another output are written in, as CSV beside JSON Lines, a page beside its JSON."""
    with database.reading() as connection:
        jobs = sorted(list_jobs(connection, limit=1_000), key=lambda job: job.job_id)
    for job in jobs:
        yield from _exports(database, job, home, is_whole)
    yield from _chain_exports(database, jobs, is_whole)
    yield from _conditions(database, jobs)
    yield from _commands(database, jobs, home)
    yield from _pages(database, _addresses(jobs, is_whole), home)
    for name in ("cli.md", "schema.md"):  # other tests compare them with what the code makes
        yield f"docs/{name}", (CHECKOUT / "docs" / name).read_bytes()


def _exports(database: Database, job: JobSummary, home: Path, is_whole: bool) -> Outputs:
    """Every format, as it comes by default and with all that can be asked for."""
    shape, folder = shape_of(job), f"export/{_named(job)}"
    extras = sorted(shape.added)
    everything = Export(only=Only.ALL, extras=extras)
    additions = [Addition(key, f"added {key}") for key in addable(shape, json.loads(job.options))]
    forms = (*Format,) if job.has_ended else (Format.JSONL, Format.TXT, Format.ORIGINAL)
    for form in forms if is_whole else (Format.JSONL, Format.ORIGINAL):
        yield f"{folder}/{form}", _exported(database, job, form, Export())
    if job.reads is not None and _named(job) not in SHAPES:
        return  # its corpus is that of the first stage
    for form in (Format.JSONL, Format.CSV, Format.TSV, Format.PARQUET) if is_whole else (Format.JSONL,):
        yield f"{folder}/all.{form}", _exported(database, job, form, everything)
    if is_whole:
        raw = Export(defuse=False, delimiter=";", bom=True, only=Only.ALL)
        yield f"{folder}/raw.csv", _exported(database, job, Format.CSV, raw)
        yield f"{folder}/terminal.tsv", _exported(database, job, Format.TSV, everything, to_terminal=True)
    for only in (Only.OK, Only.FAILED, Only.WAITING):
        yield f"{folder}/{only}.jsonl", _exported(database, job, Format.JSONL, Export(only=only))
    added = Export(additions=additions, only=Only.ALL)
    yield f"{folder}/added.original", _exported(database, job, Format.ORIGINAL, added)
    corpus = home / job.source
    if corpus.exists():  # then lines are written from the database
        corpus.rename(hidden := corpus.with_name("hidden"))
        yield f"{folder}/rewritten.original", _exported(database, job, Format.ORIGINAL, added)
        hidden.rename(corpus)


def _chain_exports(database: Database, jobs: Sequence[JobSummary], is_whole: bool) -> Outputs:
    with database.reading() as connection:
        chains = [find_chain(connection, job) for job in jobs if job.stage == 1]
    for chain in chains:
        for form in Format if is_whole else (Format.JSONL,):
            for only, extras in ((None, []), (Only.ALL, [*Extra])):
                export = Export(stages=chain, only=only, extras=extras)
                name = f"export/chain of {_named(chain[0])}/{only or 'default'}.{form}"
                yield name, _exported(database, chain[0], form, export)


def _exported(database: Database, job: JobSummary, form: Format, export: Export, *, to_terminal: bool = False) -> bytes:
    """The bytes of an export, and what is told beside it. Of parquet its table: the bytes have pyarrow's version."""
    told: list[str] = []
    try:
        export = replace(export, form=form)
        export.format_for(None)
        found = b"".join(result_lines(database, job, form, export, tell=told.append, to_terminal=to_terminal))
    except KvjobsError as error:
        return f"error: {error}\n".encode()
    if found.startswith(b"PAR1"):
        table = pq.read_table(io.BytesIO(found))
        rows = (json.dumps(row, ensure_ascii=False) for row in table.to_pylist())
        found = "\n".join([str(table.schema.metadata), *map(str, table.schema), *rows]).encode()
    return found + "".join(f"told: {one}\n" for one in told).encode()


def _conditions(database: Database, jobs: Sequence[JobSummary]) -> Outputs:
    """The positions that a condition on each column of `v_documents`, and some others, choose."""
    for job in jobs:
        if job.name in SHAPES:
            chosen = {} if job.name == "plain" else _not_null(database, job)
            chosen |= {condition: _chosen(database, job, condition) for condition in WHERES}
            yield f"where/{_named(job)}", "".join(f"{one}: {found}\n" for one, found in chosen.items()).encode()


def _not_null(database: Database, job: JobSummary) -> dict[str, str]:
    """For each column the positions where it has a value. One statement asks for all: for each its own, the statements
    would take a fifth of the time of all outputs."""
    conditions = [f"{column} is not null" for column in sorted(COLUMNS)]
    with database.reading() as connection:
        dialect = connection.dialect.name
        clauses = [Condition.parse(one).clause(dialect).label(f"is_{place}") for place, one in enumerate(conditions)]
        asked = select(VIEW.c.position, *clauses).where(VIEW.c.job_id == job.job_id).order_by(VIEW.c.position)
        rows = connection.execute(asked).all()
    return {one: ", ".join(str(row[0]) for row in rows if row[place]) for place, one in enumerate(conditions, 1)}


def _chosen(database: Database, job: JobSummary, condition: str) -> str:
    try:
        parsed = Condition.parse(condition)
        with database.reading() as connection:
            parsed = parsed.of_job(connection, job.job_id)
        found = read_documents(database, job.job_id, only=Only.ALL, condition=parsed)
        return ", ".join(str(document.position) for document in found)
    except KvjobsError as error:
        return f"error: {error}"


def _commands(database: Database, jobs: Sequence[JobSummary], home: Path) -> Outputs:
    (home / "qrels.txt").write_text("q1 0 c1 1\nq1 0 c2 0\nq2 0 x 1\n")
    asked = [line.format(job=_named(job)) for job in jobs for line in OF_EVERY_JOB.strip().splitlines()]
    asked += OTHERS.strip().splitlines()
    for name, query in saved_queries().items():
        if name == "waiting-shards":  # compares with the real time
            continue
        job = f" -p job={query.task or 'plain'}" if "job" in query.parameters else ""
        asked.append(f"query --saved {name}{job}".replace("job=translate", "job=pivot"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Context, "database", lambda _: nullcontext(database)
        )  # opening it for each takes most of the time
        for line in asked:
            yield f"command/{line.replace('/', ' ')}", _printed(*shlex.split(line))
    with database.reading() as connection:
        for job in jobs:
            yield f"recount/{_named(job)}", "\n".join(find_contradictions(connection, job.job_id)).encode()


def _printed(*arguments: str) -> bytes:
    """What `kvjobs` prints, and its exit code."""
    out, error = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(error):
        code = run(arguments)
    texts = [stream.buffer.getvalue() for stream in (out, error)]  # type: ignore[attr-defined]  # BytesIO
    return b"".join([*texts, f"exit code {code}\n".encode()])


def _pages(database: Database, addresses: Iterator[str], home: Path) -> Outputs:
    """Each page as HTML and as JSON."""
    app = create_app(database, Settings(home=home, models_dir=Path("models")), Options(hosts=("testserver",)))
    app.state.form_token = "a secret"
    with TestClient(app) as client:
        for address in addresses:
            answer = client.get(address, follow_redirects=False)
            yield (
                f"page/{address.strip('/').replace('/', ' ') or 'index'}",
                b"%d %s\n%s"
                % (
                    answer.status_code,
                    answer.headers.get("content-disposition", "").encode(),
                    answer.content,
                ),
            )


def _addresses(jobs: Sequence[JobSummary], is_whole: bool) -> Iterator[str]:
    for page in ("jobs", "workers", "models", "schema"):
        yield from (f"/{page}", f"/{page}.json")
    yield from ("/", "/overview.json", "/jobs?search=plain", "/jobs?task=score&state=done", "/query", "/query.json")
    yield from ("/query?saved=phases&p.job=1", "/metrics", "/healthz", "/jobs/4711", "/jobs/4711.json", "/nosuch")
    yield "/query?sql=select%20job_id%2C%20id%2C%20text%2C%20num_tokens%20from%20v_documents%20order%20by%201%2C%20line"
    for pair in (("plain", "pivot"), ("score", "pairs"), ("rank", "encoder"), ("ask", "chat"), ("plain", "score")):
        yield from (f"/compare{form}?a={pair[0]}&b={pair[1]}" for form in ("", ".json"))
    forms = ("", ".json") if is_whole else (".json",)  # of the same queries
    for job in jobs:
        here, is_shape = f"/jobs/{job.job_id}", _named(job) in SHAPES
        for part in ("", "/documents", *(("/shards", "/actions") if is_shape or not job.has_ended else ())):
            yield from (f"{here}{part}{form}" for form in forms)
        yield from (f"{here}/documents?sort={order}" for order in Order if is_shape)
        yield from (f"{here}/documents?{one}" for one in FILTERS if is_shape and job.name != "plain")
        for position in range(job.documents if is_shape or (job.chain is None and job.has_ended) else 1):
            yield from (f"{here}/documents/{form}?position={position}&sort=worst" for form in forms)
        yield from (f"{here}/export?format={form}" for form in ("jsonl", "excel") if is_shape)


def _named(job: JobSummary) -> str:
    return job.name or str(job.job_id)
