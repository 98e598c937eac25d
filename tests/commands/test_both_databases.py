"""Commands that read print exactly the same text on SQLite and on PostgreSQL.

`query` does so for SQL that both dialects share: SQLite has no booleans and can divide by zero.
"""

import json
import re
import shlex
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import update

from jobs.outcome import AlignedSegment, RankedCandidate, Ranking, Score, StepTiming
from jobs.process import ProcessId
from jobs.spec import RerankOptions, ScoreOptions, Task
from jobs.store.database import Database
from jobs.store.schema.states import DocumentStatus
from jobs.store.schema.tables import Job
from tests.answered_jobs import insert_answered_job
from tests.command_line import Kvjobs
from tests.databases import empty
from tests.rows import PIVOT_COLUMNS, Line, add_timings, enter, insert_job, pivoted

COMMANDS = """
ls
ls --json
ls --csv
ls -q --limit 2
show nightly
show mixed --json
show scored
show reranked --json
show nobody
show 6
show 6 --json
query --saved providers -p job 6 --json
export 6 --where 'provider <> ''onnx'''
steps nightly
steps nightly --json
steps mixed
wait nightly
wait mixed
watch scored
export nightly
export nightly --format csv --with text --with tokens
export mixed --only failed
export mixed --format tsv
export mixed --format txt
export waiting --only waiting
show waiting
export scored --where 'perplexity < 50 and lang = ''en'''
export scored --format csv
export scored --where 'nosuch = 1'
export reranked
export reranked --format csv
export reranked --format trec
totals scored
totals scored --by lang --json
totals nightly
compare nightly mixed
compare nightly mixed --csv
compare scored nightly
query 'select job_id, name, state, succeeded, finished_at from v_jobs order by job_id'
query 'select id, status, translation, fields from v_documents order by job_id, position' --json
query 'select * from v_phases order by phase, job_id' --csv
show pivoted
export pivoted --with log_prob --with tokens
export pivoted --format csv --with log_prob
export pivoted --where 'contains(via, ''WIND'') and via_log_prob < -1 and via_target_tokens = 7'
query 'select id, via, via_log_prob, via_source_tokens, via_segments from v_documents where job_id = 7' --csv
worker ls
worker ls --json
worker ping --json
db check mixed
db prune nobody
"""
FAILED = {"status": DocumentStatus.FAILED, "error": ("engine-error", "it broke")}
TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?([+-]\d\d:\d\d)?")


def fill(database: Database) -> None:
    """Jobs of every task, with results, failures, timings and workers."""
    began, ended = (datetime(2026, 11, 20, 8, minute, 30, tzinfo=UTC) for minute in (0, 2))
    times: dict[str, Any] = {"created_at": began, "ingested_at": began, "started_at": began, "finished_at": ended}
    translated = [Line(f"d{number}", f"译文{number}", fields={"lang": "en"}) for number in range(3)]
    nightly = insert_job(database, translated, name="nightly", **times)
    insert_job(
        database,
        [
            Line("good", "好", flags="repetition", alternatives=[{"translation": "好", "score": -0.5}]),
            Line("bad", **FAILED),
            Line(None, status=DocumentStatus.REJECTED, text=None, error=("bad-json", "line 3 is not JSON")),
            Line("poison", status=DocumentStatus.QUARANTINED, error=("killed", "two workers died")),
            Line("7", status=DocumentStatus.CANCELLED, numeric_id=True),
        ],
        name="mixed",
        **times,
    )
    insert_job(database, [Line("a"), Line("b")], name="waiting", **times | {"started_at": None, "finished_at": None})
    scores = [
        Line("fluent", result=Score(6.0, 3, 2, 12), fields={"lang": "en", "n": 1}),
        Line("noise", result=Score(9e5, 1, 1, 1), fields={"lang": "en", "n": 2.5}),
        Line("autre", result=Score(1.5, 1, 1, 1), fields={"lang": "fr"}),
    ]
    insert_job(database, scores, name="scored", task=Task.SCORE, options=ScoreOptions(), **times)
    query = json.dumps({"query": "q", "candidates": [{"id": one, "text": "t", "score": 1.0} for one in "ab"]})
    ranking = Ranking((RankedCandidate("b", 1, -0.5, 1.0), RankedCandidate("a", 2, -1.5, 1.0)), 7, 20, 4)
    ranked = Line("q1", text=query, result=ranking)
    insert_job(database, [ranked], name="reranked", task=Task.RERANK, options=RerankOptions(), **times)
    calls = (("encode", 0, 30, 0.5), ("prefill", 0, 3, 0.125), ("decode", 1, 3, 0.25))
    add_timings(database, nightly, [StepTiming(phase, step, 3, tokens, 0, s) for phase, step, tokens, s in calls])
    answered = insert_answered_job(database)
    with database.writing() as connection:
        connection.execute(update(Job).where(Job.id == answered).values(**times))
    line = Line("v1", text="du vent", result=pivoted("Wind", "wind", (AlignedSegment(0, 7, 0, 4), (0, 4))))
    insert_job(database, [line, Line("v2", **FAILED)], name="pivoted", **PIVOT_COLUMNS, **times)
    enter(database, ProcessId("another machine", 4711, 1.0))


def test_a_command_that_reads_prints_the_same_on_both_databases(
    kvjobs: Kvjobs, sqlite: Database, postgresql: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def printed(database: Database) -> dict[str, list[object]]:
        fill(database)
        monkeypatch.setenv("KVJOBS_DATABASE", database.engine.url.render_as_string(hide_password=False))
        found = {}
        for command in COMMANDS.strip().splitlines():
            result = kvjobs(*shlex.split(command))
            found[command] = [result.exit_code, *(TIME.sub("TIME", text) for text in (result.out, result.err))]
        return found

    try:
        on_sqlite, on_postgresql = printed(sqlite), printed(postgresql)
    finally:
        empty(postgresql)

    for command, expected in on_sqlite.items():
        assert on_postgresql[command] == expected, command
