"""Chains of six documents, submitted and processed without a model: a result depends on the position of its document
alone."""

import json
from pathlib import Path
from typing import Any

from jobs.corpus.corpus import Corpus
from jobs.outcome import Failed, Outcome, Score
from jobs.spec import JobSpec
from jobs.stage import FilterSpec, Stage
from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.queue.chains import chain_of
from jobs.store.queue.work import Work
from jobs.submission.submit import submit
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.rows import translated
from tests.store.leasing import write

LOW, HIGH = 2.302585092994046, 4.605170185988092  # natural logarithms of the perplexities 10 and 100


TRANSLATE = JobSpec(task=Task.TRANSLATE, model="tiny", model_revision="r1", options=TranslateOptions())
SCORE = JobSpec(task=Task.SCORE, model="lm", model_revision="r2", options=ScoreOptions())
SCORED, KEPT = Stage(SCORE, reads=1), Stage(FilterSpec("perplexity < 50 and lang <> 'fr'"), reads=1)
LINES = [{"id": f"d{n}", "text": f"text {n}", "lang": "fr" if n == 1 else "en"} for n in range(6)]


def begin(
    database: Database,
    folder: Path,
    *stages: Stage,
    first: JobSpec = TRANSLATE,
    bad_line: bool = False,
    **how: Any,
) -> list[int]:
    """Submit LINES, or LINES with one that cannot be read among them; the jobs of the chain."""
    path = folder / "corpus.jsonl"
    written = [json.dumps(line) for line in LINES]
    path.write_text("\n".join([*written[:2], *(["{"] if bad_line else []), *written[2:]]))
    job = submit(database, Corpus(path=path), first, stages=stages, spool=folder / "spool", **how)
    with database.reading() as connection:
        return chain_of(connection, job.job_id)


def outcome(work: Work, position: int) -> Outcome:
    """Of a translation: `t-POSITION`; of a score: a perplexity of 10 for even positions, of 100 for odd ones."""
    if work.spec.task is Task.TRANSLATE:
        return translated(f"t-{position}")
    return Score(nll_sum=HIGH if position % 2 else LOW, num_tokens=1, num_words=1, num_bytes=3, num_source_tokens=0)


def finish(database: Database, work: Work, failing: frozenset[int] = frozenset()) -> None:
    for index, batch in enumerate(work.batches):
        outcomes = [
            Failed("engine-error", "it broke") if one.position in failing else outcome(work, one.position)
            for one in batch
        ]
        write(database, work, index, outcomes=outcomes)


def finish_all(database: Database, failing: frozenset[int] = frozenset()) -> None:
    while (work := leases.lease(database, 1, 0, 60.0)) is not None:
        finish(database, work, failing)
