"""A store as full as a year of work leaves it: corpora are submitted, and their shards leased and recorded, as they
always are; only the results and their timings are made up, by a generator that is the same in every run.

Knows: corpora, leases, recording. Does not know: models, workers, pages.
"""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import select

from jobs.answers import Answers
from jobs.corpus.corpus import Corpus
from jobs.outcome import (
    AlignedSegment,
    Failed,
    Flag,
    Outcome,
    RankedCandidate,
    Ranking,
    Score,
    StepTiming,
    Translation,
)
from jobs.queues import CPU
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.queue.leases import lease
from jobs.store.queue.record import record
from jobs.store.queue.work import Work
from jobs.store.schema.tables import JobCounts
from jobs.store.worker_registry import register
from jobs.submission.submit import submit
from jobs.tasks.kind import PayloadKind
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions

# Shares of the documents: two scorings of the same corpus, which can be compared; a translation; queries.
SHARES = {"scores": 0.4, "scores-again": 0.2, "translations": 0.3, "queries": 0.1}
OPTIONS = {Task.TRANSLATE: TranslateOptions(), Task.SCORE: ScoreOptions(), Task.RERANK: RerankOptions()}
TASKS = {"scores": Task.SCORE, "scores-again": Task.SCORE, "translations": Task.TRANSLATE, "queries": Task.RERANK}
REJECTED, FAILED = 0.001, 0.001  # shares of the documents
SMALL_JOBS = 300  # besides the large ones
LEASE_S = 600.0
SYLLABLES = ["ka", "to", "mi", "ren", "sol", "ve", "dar", "un", "pel", "is"]
LANGUAGES = ("en", "de", "fr", "zh")


def submit_corpora(database: Database, num_documents: int, folder: Path) -> None:
    """Submit the large corpora, and small ones."""
    for name, share in SHARES.items():
        kind = PayloadKind.CANDIDATES if TASKS[name] is Task.RERANK else PayloadKind.TEXT
        _submit(database, folder, name, TASKS[name], kind, _lines(int(num_documents * share), name))
    for number in range(SMALL_JOBS):
        _submit(database, folder, f"small-{number}", Task.SCORE, PayloadKind.TEXT, _lines(3, f"small-{number}"))


def _submit(database: Database, folder: Path, name: str, task: Task, kind: PayloadKind, lines: Iterator[str]) -> None:
    corpus = folder / f"{name}.jsonl"
    with corpus.open("w", encoding="utf-8") as file:
        file.writelines(lines)
    spec = JobSpec(task=task, model=f"bench-{task}", model_revision="0" * 64, options=OPTIONS[task])
    submit(database, Corpus(path=corpus, payload_kind=kind), spec, name=name, spool=folder)
    corpus.unlink()


def _lines(num_documents: int, name: str) -> Iterator[str]:
    """Lines of 150 bytes, of queries 600: with these, a shard has some 500 documents."""
    rng = random.Random(name.removesuffix("-again"))
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(5_000)]
    for number in range(num_documents):
        if rng.random() < REJECTED:
            yield f'{{"id": "doc-{number:08d}", "text": \n'
            continue
        text = " ".join(rng.choices(words, k=20))[:125]
        line = {"id": f"doc-{number:08d}", "text": text, "lang": rng.choice(LANGUAGES), "quality": rng.random()}
        if name == "queries":
            del line["text"]
            cuts = range(0, 96, 24)
            line |= {"query": text[:40], "candidates": [{"id": f"c{cut}", "text": text[cut:] + text} for cut in cuts]}
        yield json.dumps(line) + "\n"


def record_shards(database: Database, *, recorded: float = 1.0, pause_s: float = 0.0, seed: int = 0) -> None:
    """Record the results of each job's shards, in turns, until the share `recorded` of them is done.

    `pause_s`: the pause after each batch, in which a worker computes the next one.
    """
    worker_id = register(database, device="cpu", provider="CPUExecutionProvider", lanes=1, queues=CPU)
    rng = random.Random(seed)
    while jobs := _jobs_to_record(database, recorded):
        for job_id in jobs:
            work = lease(database, worker_id, 0, LEASE_S, first_job=job_id)
            if work is None:
                return
            for index in range(len(work.batches)):
                _record_batch(database, work, index, rng)
                time.sleep(pause_s)


def _jobs_to_record(database: Database, recorded: float) -> list[int]:
    with database.reading() as connection:
        is_left = (JobCounts.shards_open > 0, JobCounts.shards_open > (1 - recorded) * JobCounts.shards)
        rows = connection.execute(select(JobCounts.job_id).where(*is_left))
        return list(rows.scalars())


def _record_batch(database: Database, work: Work, index: int, rng: random.Random) -> None:
    outcomes = [_outcome(work.spec.task, document.text, rng) for document in work.batches[index]]
    timings = list(_timings(work.spec.task, len(outcomes), rng))
    record(database, work, index, Answers(outcomes, timings=timings), lease_s=LEASE_S)


def _outcome(task: Task, payload: str, rng: random.Random) -> Outcome:
    """A result such as a model gives: perplexities around 30, one in a thousand beyond 500."""
    if rng.random() < FAILED:
        return Failed(*rng.choice([("non-finite", "the model gave NaN"), ("engine-error", "the model call failed")]))
    tokens = max(1, len(payload) // 4 + rng.randint(-6, 6))
    nll_sum = tokens * rng.gauss(3.4, 0.9)
    flags = (rng.choice((Flag.TRUNCATED, Flag.REPETITION)),) if rng.random() < 0.01 else ()
    if task is Task.SCORE:
        flags = (Flag.TRUNCATED,) if flags else ()
        return Score(nll_sum, tokens, num_words=payload.count(" ") + 1, num_bytes=len(payload), flags=flags)
    if task is Task.RERANK:
        scores = sorted((-rng.random() * 4 for _ in range(4)), reverse=True)
        ids = rng.sample(["c0", "c24", "c48", "c72"], 4)
        ranked = [
            RankedCandidate(one, rank + 1, score, None)
            for rank, (one, score) in enumerate(zip(ids, scores, strict=True))
        ]
        return Ranking(tuple(ranked), num_tokens=tokens, num_computed=tokens, num_shared=tokens // 2)
    middle = len(payload) // 2
    segments = (AlignedSegment(0, middle, 0, middle), AlignedSegment(middle, len(payload), middle, len(payload)))
    return Translation(
        text=payload[::-1],
        log_prob=-nll_sum / 10,
        num_segments=2,
        num_reused=0,
        num_source_tokens=tokens,
        num_target_tokens=tokens + 2,
        flags=flags,
        segments=segments,
    )


def _timings(task: Task, rows: int, rng: random.Random) -> Iterator[StepTiming]:
    """The model calls of a batch: a few of a scoring, some 35 steps of a translation."""
    yield StepTiming("tokenize", 0, rows, 0, 0, rng.uniform(0.001, 0.003))
    calls = 4 if task is not Task.TRANSLATE else 1
    for _ in range(calls):
        yield StepTiming("encode" if task is Task.TRANSLATE else "prefill", 0, 32, 1_000, 0, rng.uniform(0.02, 0.05))
    if task is Task.TRANSLATE:
        for step in range(1, 35):
            yield StepTiming("decode", step, rows, rows, step, rng.uniform(0.002, 0.004))
    yield StepTiming("queue", 0, rows, 0, 0, 0.002)
    yield StepTiming("record", 0, rows, 0, 0, 0.006)
