"""A database of jobs of every task, status, flag and provider, submitted and recorded as workers would have done it."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import update

from jobs.answers import Answers
from jobs.corpus.corpus import Corpus
from jobs.outcome import (
    AlignedSegment,
    Alternative,
    Failed,
    Finish,
    Flag,
    Generation,
    Outcome,
    Quarantined,
    RankedCandidate,
    Ranking,
    Score,
    StepTiming,
    TokenScore,
    Translation,
    Via,
)
from jobs.providers import NO_PROVIDER, ONNX, Choice, Handover, ProviderOrder, Reason, Usage
from jobs.routing.routes import Leg, Route, revision_of
from jobs.spec import JobSpec
from jobs.stage import CORPUS, FilterSpec, Stage
from jobs.store.database import Database
from jobs.store.ingest.lifecycle import abandon
from jobs.store.jobs import cancel, log_action, log_outcome, pause, set_priority
from jobs.store.model_reports import log_cache_reports
from jobs.store.queue import leases
from jobs.store.queue.record import record
from jobs.store.queue.work import Work
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Job, Worker
from jobs.store.worker_registry import WorkerRequest, ask, mark_stopped, register
from jobs.submission.submit import submit
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.rerank import Method, RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.cache_reports import MEASURED
from tests.golden.bytes.pins import VERSION, Clock
from tests.parquet_files import write_parquet

LEASE_S = 60.0
HTML = '<script>alert("1")</script> & <b>bold</b>'
TERMINAL = "red \x1b[31m and \x07 bell, \u202eright to left"
FORMULA = '=HYPERLINK("http://x","y")'
LINES = "two\nlines\tand a tab \\ \u2028 and, a comma"
HOSTILE = ("A plain sentence.", HTML, TERMINAL, FORMULA, LINES, "＋1 full-width", "-1.5", "emoji 😀, 中文, é")
ORDER = ProviderOrder(
    (Choice(ONNX), Choice("openai", "gpt-<b>4o</b>"), Choice("ollama", skipped="it cannot score a text"))
)
BROKEN = Failed("engine-error", f"it broke: {HTML}")
KILLER = Quarantined("killed", f"two workers died: {TERMINAL}")


def make_jobs(database: Database, folder: Path, clock: Clock) -> None:
    """Fill an empty database. Corpora are written to `folder`, the working directory."""
    workers = _make_workers(database)
    made = _Maker(database, folder, clock)
    _translate(made)
    _score(made)
    _rerank(made)
    _generate(made)
    _chain(made)
    _unfinished(made)
    _chain_of_queries(made)
    _finish_workers(database, workers)
    log_cache_reports(database, [replace(MEASURED, version=VERSION)])


class _Maker:
    """Submits a job and records its outcomes; the clock moves with each batch."""

    def __init__(self, database: Database, folder: Path, clock: Clock) -> None:
        self.database, self._folder, self._clock = database, folder, clock

    def submit(self, name: str, corpus: Path, spec: JobSpec, *stages: Stage, **how: Any) -> int:
        """Submit a corpus, with a name relative to the folder, so that the rows are the same in any folder."""
        kind = spec.payload_kind
        reading = {key: how.pop(key) for key in ("language_field", "format") if key in how}
        job = submit(
            self.database,
            Corpus(path=corpus, payload_kind=kind, **reading),
            spec,
            stages=stages,
            name=name,
            spool=self._folder / "spool",
            **how,
        )
        self.rename_sources()
        self._clock.move(2.5)
        return job.job_id

    def rename_sources(self) -> None:
        with self.database.writing() as connection:
            for job_id, source in connection.execute(Job.__table__.select().with_only_columns(Job.id, Job.source)):
                relative = source.removeprefix(f"{self._folder}/")
                connection.execute(update(Job).where(Job.id == job_id).values(source=relative))

    def lease(self, job_id: int, worker_id: int = 1) -> Work | None:
        self._clock.move(0.75)
        return leases.lease(self.database, worker_id, 0, LEASE_S, first_job=job_id)

    def process(
        self,
        job_id: int,
        outcomes: Mapping[int, Sequence[Outcome]],
        *,
        answered: Sequence[str] = (),
        shards: int | None = None,
    ) -> None:
        """Record the outcomes of a job and of its chain, by position; `shards`: of so many shards alone."""
        done = 0
        while (shards is None or done < shards) and (work := self.lease(job_id, 1 + done % 2)) is not None:
            for index, batch in enumerate(work.batches):
                self._clock.move(7.5)
                positions = [document.position for document in batch]
                given = Answers(
                    [outcomes[work.job_id][position] for position in positions],
                    timings=_timings(work, len(batch)),
                    **_who([answered[position] for position in positions] if answered else []),
                )
                record(self.database, work, index, given, lease_s=LEASE_S)
            done += 1

    def write(self, name: str, content: str | bytes) -> Path:
        path = self._folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def jsonl(self, name: str, records: Sequence[Any]) -> Path:
        """A text among the records is a line as it is."""
        lines = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in records]
        return self.write(name, "".join(f"{line}\n" for line in lines))

    def table(self, name: str, rows: Sequence[Sequence[str]], delimiter: str) -> Path:
        path = self._folder / name
        with path.open("w", newline="") as file:
            csv.writer(file, delimiter=delimiter).writerows(rows)
        return path


def _spec(task: Task, model: str, options: Any, **more: Any) -> JobSpec:
    return JobSpec(task=task, model=model, model_revision=model.encode().hex() * 2, options=options, **more)


def _timings(work: Work, rows: int) -> list[StepTiming]:
    """Model calls and other phases, different in each batch."""
    fraction = (work.shard_id % 7 + 1) / 16
    calls = [
        StepTiming("tokenize", 0, rows, 9 * rows, 0, fraction / 8),
        StepTiming("prefill", 0, rows, 30, 0, fraction),
    ]
    calls += [StepTiming("decode", step, rows, rows, 10 * step, fraction / 4) for step in range(1, 4)]
    return [
        *calls,
        StepTiming("head", 0, rows, rows, 0, fraction / 2),
        StepTiming("decode.via", 1, rows, rows, 3, 0.25),
    ]


def _who(answered: Sequence[str]) -> dict[str, Any]:
    """Who answered each document, as fields of `Answers`; empty: onnx, all of them."""
    others = sum(name != ONNX for name in answered)
    if not others:
        return {"answered_by": answered}
    handover = Handover(ONNX, "openai", Reason.ENGINE_ERROR, f"out of memory {HTML}", documents=others, is_change=True)
    usage = Usage("openai", requests=5, prompt_tokens=1_500, completion_tokens=20, cost=0.0125)
    return {"answered_by": answered, "handovers": [handover], "usage": [usage]}


def _translation(number: int, text: str, *flags: Flag, **more: Any) -> Translation:
    return Translation(
        text=text,
        log_prob=more.pop("log_prob", -1.25 * (number + 1)),
        num_segments=2,
        num_reused=number % 2,
        num_source_tokens=5 + number,
        num_target_tokens=4 + number,
        flags=flags,
        **more,
    )


def _translate(made: _Maker) -> None:
    records: list[Any] = [
        {"id": f"d{number}", "text": text, "lang": "de" if number % 2 else "en", "n": number, "meta": {"a": [1, None]}}
        for number, text in enumerate(HOSTILE)
    ]
    records[1] |= {"status": "own", "translation": "own", HTML: FORMULA, "big": 12345678901234567890123}
    records[2] |= {"id": 17, "fields": {"x": 1}, "flags": "own", "error": "own", "n": 2.5}
    records[3] |= {"id": f'a "quoted" id/with?signs#and {HTML}', "lang": None, "n": "text"}
    records[4].pop("id")
    records += [
        "{ no JSON",
        {"id": "d0", "text": "again"},
        {"id": "no text"},
        {"id": "late", "text": "waits", "lang": "fr"},
    ]
    corpus = made.jsonl("plain.jsonl", records)
    segments = (AlignedSegment(0, 7, 0, 4), AlignedSegment(8, 17, 5, 9))
    best = (Alternative("eins", -0.5), Alternative(FORMULA, -1.75))
    outcomes: list[Any] = [
        _translation(0, "Ein Satz.", alternatives=best, segments=segments, unknown_share=0.0),
        _translation(1, HTML, Flag.REPETITION, Flag.TRUNCATED, unknown_share=0.25),
        _translation(2, TERMINAL, Flag.UNKNOWN_SOURCE, segments=segments[:1]),
        _translation(3, FORMULA, Flag.PASSED_THROUGH, Flag.SPLIT, log_prob=0.0),
        _translation(4, LINES, log_prob=None),
        BROKEN,
        KILLER,
        replace(_translation(7, "", Flag.UNSCORED, log_prob=None), num_target_tokens=0, num_segments=0),
        *[None] * 3,
        _translation(11, "spät"),
    ]
    options = TranslateOptions(beam_size=4, n_best=2, length_penalty=0.6, target_language="de")
    job = made.submit("plain", corpus, _spec(Task.TRANSLATE, "opus-mt-en-de", options))
    made.process(job, {job: outcomes})

    route = Route(legs=(_leg("fr", "en"), _leg("en", "de")), via="en")
    pivot = TranslateOptions(routes=(route,), source_language="fr")
    table = [["id", "text", "note"], *([f"v{number}", text, f"note {text}"] for number, text in enumerate(HOSTILE[:5]))]
    job = made.submit("pivot", made.table("pivot.csv", table, ","), _spec(Task.TRANSLATE, route.models, pivot))
    made.process(job, {job: [_pivoted(0, "Wind"), _pivoted(1, HTML), _pivoted(2, TERMINAL), BROKEN, _pivoted(4, "w")]})

    routes = (Route(legs=(_leg("en", "de"),), language="en"), Route(legs=route.legs, language="fr", via="en"))
    routed = _spec(Task.TRANSLATE, "auto", TranslateOptions(routes=routes, target_language="de"))
    routed = replace(routed, model_revision=revision_of(routes))
    languages = ("fr", "en", "sw", "fr", None, "en")
    records = [{"id": f"r{n}", "text": f"text {n}", "language": language} for n, language in enumerate(languages)]
    job = made.submit("routed", made.jsonl("routed.jsonl", records), routed, language_field="language")
    made.process(job, {job: [_pivoted(n, f"t{n}") if n in (0, 3) else _translation(n, f"t{n}") for n in range(6)]})

    plain = _spec(Task.TRANSLATE, "opus-mt-en-zh", TranslateOptions(), providers=ORDER)
    job = made.submit("answered", made.write("answered.txt", "one\n\ntwo\nthree\nfour\n"), plain)
    unknown = _translation(1, "不知", Flag.UNSCORED, log_prob=None)
    unanswered = Failed("unanswered", "no provider answered; onnx: out of memory; openai: HTTP 429")
    outcomes = [_translation(0, "一"), unknown, replace(unknown, text=HTML), unanswered]
    made.process(job, {job: outcomes}, answered=[ONNX, "openai", "openai", NO_PROVIDER])


def _leg(source: str, target: str) -> Leg:
    return Leg(model=f"opus-mt-{source}-{target}", model_revision=source.encode().hex() * 16, source_language=source)


def _pivoted(number: int, text: str) -> Translation:
    via = Via(f"via {text}", -2.0 - number, num_target_tokens=7, num_source_tokens=6, segments=((0, 4), (4, 6)))
    segments = (AlignedSegment(0, 3, 0, 2), AlignedSegment(3, 7, 2, 3))
    return replace(_translation(number, text), via=via, segments=segments)


def _score(made: _Maker) -> None:
    tokens = (TokenScore("A", 0, 1, None), TokenScore(" <b>", 1, 5, -0.125), TokenScore("\x1b", 5, 6, -12.5))
    outcomes: list[Outcome] = [
        Score(6.0, 3, 2, 12, flags=(Flag.UNSCORED_FIRST,), tokens=tokens),
        Score(9e5, 1, 1, 1, flags=(Flag.TRUNCATED, Flag.UNSCORED_FIRST)),
        Score(0.0, 0, 0, 0, flags=(Flag.UNSCORED,)),
        BROKEN,
        Score(1.5, 2, 1, 7, reused=True),
        KILLER,
        Score(float("nan"), 1, 1, 1),
        Score(12.75, 9, 5, 33, tokens=tokens[:2]),
    ]
    records = [{"id": n, "text": text, "lang": ["en", "de", None][n % 3], "n": n / 4} for n, text in enumerate(HOSTILE)]
    options = ScoreOptions(token_scores=True, stride=128, max_length=512)
    job = made.submit("score", made.jsonl("score.jsonl", records), _spec(Task.SCORE, "demo-lm", options))
    made.process(job, {job: outcomes})

    table = [
        ["id", "source", "target", "lang"],
        *([f"p{n}", text, f"t {text}", "en"] for n, text in enumerate(HOSTILE[:4])),
    ]
    pairs = _spec(Task.SCORE, "nllb", ScoreOptions(pairs=True, target_language="de"), providers=ORDER)
    job = made.submit("pairs", made.table("pairs.tsv", table, "\t"), pairs)
    scores: list[Outcome] = [Score(2.0 * n + 1, n + 1, n + 1, 4 * n + 4, num_source_tokens=7) for n in range(4)]
    made.process(job, {job: scores}, answered=[ONNX, "openai", ONNX, "openai"])


def _rerank(made: _Maker) -> None:
    candidates = [{"id": f"c{n}", "text": text, "score": 1.5 - n / 2} for n, text in enumerate(HOSTILE[:3])]
    records: list[Any] = [
        {"id": "q1", "query": "which?", "candidates": candidates, "lang": "en"},
        {"id": "q2", "query": HTML, "candidates": [{"id": HTML, "text": HTML}, {"id": FORMULA, "text": TERMINAL}]},
        {"id": "q3", "query": "fails", "candidates": candidates[:2], "ranking": "own"},
        {"id": "q4", "query": "no candidates", "candidates": []},
    ]
    ranked = [
        RankedCandidate("c2", 1, -0.5, 0.5),
        RankedCandidate("c0", 2, -1.5, 1.5),
        RankedCandidate("c1", 3, None, 1.0, f"too long {HTML}"),
    ]
    hostile = (RankedCandidate(FORMULA, 1, 0.75, None), RankedCandidate(HTML, 2, 0.25, None))
    outcomes: list[Outcome] = [
        Ranking(tuple(ranked), 7, 20, 4, (Flag.KEPT_ORDER,)),
        Ranking(hostile, 3, 9, 0, (Flag.TRUNCATED,)),
        BROKEN,
    ]
    corpus = made.jsonl("rank.jsonl", records)
    options = RerankOptions(method=Method.QUERY_LIKELIHOOD, fusion=0.25)
    job = made.submit("rank", corpus, _spec(Task.RERANK, "demo-lm", options))
    made.process(job, {job: outcomes})

    encoder = _spec(Task.RERANK, "cross", RerankOptions(), providers=ORDER)
    job = made.submit("encoder", corpus, encoder)
    turned = Ranking((ranked[1], replace(ranked[2], score=-3.0, error=None), ranked[0]), 7, 20, 0)
    kept = Ranking((replace(ranked[1], rank=1), ranked[2]), 0, 0, 0, (Flag.KEPT_ORDER,))
    made.process(job, {job: [turned, outcomes[1], kept]}, answered=[ONNX, "openai", NO_PROVIDER])


def _generate(made: _Maker) -> None:
    finishes = (Finish.EOS, Finish.LENGTH, Finish.STOP)
    outcomes: list[Outcome] = [
        Generation(text, -0.75 * (n + 1), finishes[n % 3], 6 + n, n % 4, 3 * n) for n, text in enumerate(HOSTILE)
    ]
    outcomes[1] = Generation(HTML, None, Finish.LENGTH, 7, 0, 5, (Flag.REPETITION, Flag.TRUNCATED))
    outcomes[5:7] = [BROKEN, KILLER]
    columns = {"id": [f"g{n}" for n in range(8)], "text": list(HOSTILE), "lang": ["en", "de"] * 4, "n": [0.5] * 8}
    corpus = write_parquet(made.write("ask.parquet", ""), columns)
    options = GenerateOptions(temperature=0.75, top_p=0.9, seed=7, stop=("\n", HTML), max_new_tokens=64)
    job = made.submit("ask", corpus, _spec(Task.GENERATE, "demo-lm", options))
    made.process(job, {job: outcomes})

    messages = [{"role": "system", "content": HTML}, {"role": "user", "content": TERMINAL}]
    records = [{"id": "m1", "messages": messages, "generation": "own"}, {"id": "m2", "text": "hello"}, {"id": "m3"}]
    chat = _spec(Task.GENERATE, "chat-lm", GenerateOptions(chat=True, system="be brief"), providers=ORDER)
    job = made.submit("chat", made.jsonl("chat.jsonl", records), chat)
    made.process(job, {job: outcomes[:3]}, answered=["openai", ONNX, ONNX])


def _chain(made: _Maker) -> None:
    records = [{"id": f"c{n}", "text": f"text {n}", "lang": "fr" if n == 1 else "en"} for n in range(7)]
    corpus = made.jsonl("chain.jsonl", [*records[:2], "[]", *records[2:]])
    translate = _spec(Task.TRANSLATE, "opus-mt-en-de", TranslateOptions())
    stages = (
        Stage(_spec(Task.SCORE, "demo-lm", ScoreOptions(token_scores=True)), reads=1),
        Stage(FilterSpec("perplexity < 50 and lang <> 'fr' and log_prob > -8"), reads=1),
        Stage(_spec(Task.SCORE, "nllb", ScoreOptions(pairs=True), providers=ORDER), reads=1),
        Stage(_spec(Task.GENERATE, "demo-lm", GenerateOptions()), reads=CORPUS),
    )
    job = made.submit("chain", corpus, translate, *stages)
    translations: list[Outcome] = [_translation(n, f"t{n}") for n in range(8)]
    translations[4] = BROKEN
    scores: list[Outcome] = [Score(4.5 if n == 5 else 1.5, 1, 1, 3, flags=(Flag.UNSCORED_FIRST,)) for n in range(8)]
    ends: list[Outcome] = [Generation(f"g{n}", -1.5, Finish.EOS, 5, 0, 4) for n in range(8)]
    made.process(job, {job: translations, job + 1: scores, job + 3: scores, job + 4: ends})

    generate = _spec(Task.GENERATE, "demo-lm", GenerateOptions())
    stages = (Stage(FilterSpec("num_shared = 0"), reads=1), Stage(translate, reads=1))
    job = made.submit("half", made.jsonl("half.jsonl", records), generate, *stages)
    ends = [Generation(f"g{n}", -1.5, Finish.EOS, 5, n % 2, 4) for n in range(8)]
    made.process(job, {job: ends}, shards=1)


def _chain_of_queries(made: _Maker) -> None:
    candidates = [{"id": "a", "text": "t"}, {"id": HTML, "text": "u"}]
    records = [{"id": f"q{n}", "query": "which?", "candidates": candidates} for n in range(3)]
    kept = Stage(FilterSpec("num_unscored = 0"), reads=CORPUS)
    job = made.submit("queries", made.jsonl("queries.jsonl", records), _spec(Task.RERANK, "lm", RerankOptions()), kept)
    ranked = (RankedCandidate(HTML, 1, 0.5, None), RankedCandidate("a", 2, None, None, "too long"))
    scored = (ranked[0], RankedCandidate("a", 2, -1.5, None))
    made.process(job, {job: [Ranking(scored, 7, 20, 4), Ranking(ranked, 7, 20, 4), BROKEN]}, shards=1)


def _unfinished(made: _Maker) -> None:
    database = made.database
    lines = "".join(f"line {n}\n" for n in range(12))
    spec = _spec(Task.TRANSLATE, "opus-mt-en-de", TranslateOptions(reuse=False))
    outcomes: list[Outcome] = [_translation(n, f"t{n}") for n in range(12)]
    jobs = {}
    for name, shards in (("running", 1), ("paused", 1), ("cancelled", 1), ("waiting", 0)):
        jobs[name] = made.submit(name, made.write(f"{name}.txt", name + lines), spec)
        made.process(jobs[name], {jobs[name]: outcomes}, shards=shards)
    set_priority(database, jobs["waiting"], 5)
    made.lease(jobs["running"])
    number = log_action(database, jobs["paused"], "pause", f"mallory@{HTML}", "disk full")
    pause(database, jobs["paused"], f"the model is gone: {HTML}")
    log_outcome(database, number, "paused")
    cancel(database, jobs["cancelled"])
    for name in ("ingesting", "abandoned"):
        jobs[name] = made.submit(name, made.write(f"{name}.txt", name + lines), spec)
        with database.writing() as connection:
            begun = {"state": JobState.INGESTING, "ingested_at": None, "ingested": 12}
            connection.execute(update(Job).where(Job.id == jobs[name]).values(**begun))
    abandon(database, jobs["abandoned"], f"it changed while it was read: {TERMINAL}")


def _make_workers(database: Database) -> list[int]:
    return [register(database, device=device, provider="CPU", lanes=2) for device in ("cpu", "cuda:0", "cpu")]


def _finish_workers(database: Database, workers: Sequence[int]) -> None:
    """Their hosts and processes, which would be those of this machine; one drains, one was killed."""
    ask(database, workers[1], WorkerRequest.DRAIN, f"mallory@{HTML}")
    mark_stopped(database, workers[2:], killed=True)
    with database.writing() as connection:
        for number in workers:
            own = {"host": f"host-{number}", "machine": f"machine {number}", "pid": 4000 + number}
            own |= {"process_started": 1.5, "models": '{"demo-lm": 1.25}', "kv_bytes": 2048}
            connection.execute(update(Worker).where(Worker.id == number).values(**own))
