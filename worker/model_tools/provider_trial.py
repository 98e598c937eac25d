"""
The providers of a job tried on a sample, one after the other: how fast each answers, and how far its answers are from
the answers of the first provider.

    sample   -> batches                 as a lease cuts them, and small enough for every lane to get some
    provider -> outcomes, seconds       each batch by the next free lane, as in a worker
    outcomes -> agreement               with the first provider that answered

Knows: providers, outcomes. Does not know: jobs in the database, the command line.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count

from jobs import measures
from jobs.answers import Answers, Unanswered, join
from jobs.comparison.rankings import RankingsCompared
from jobs.comparison.scores import ScoresCompared
from jobs.comparison.translations import TranslationsCompared
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.documents import Document
from jobs.errors import KvjobsError
from jobs.outcome import Failed, Generation, Outcome, Quarantined, Ranking, Score, Translation
from jobs.providers import Choice, Usage
from jobs.spec import JobSpec
from jobs.store.queue.batches import Batch, PlannedDocument, batch_limits, plan_batches
from worker.engine.runtime.device import lanes_of
from worker.engine.runtime.run_context import RunContext
from worker.isolation.bisect import BisectingLane
from worker.lane import Lane
from worker.providers.protocol import AnsweringLane, ProviderJob
from worker.providers.registry import Providers

BATCHES_PER_LANE = 4  # at least, where the sample is large enough: else one lane works while the others are idle


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTrial:
    """How one provider answered the sample. If it could not be tried, `why_not` says why and the rest is 0."""

    provider: str
    model: str  # its name there
    why_not: str | None = None
    documents: int = 0  # with a result
    failed: int = 0  # documents that are bad in themselves, as the provider finds
    unanswered: int = 0
    reason: str | None = None  # why the first unanswered document was not answered, else why the first one failed
    open_s: float = 0.0  # until the model was ready
    seconds: float = 0.0  # of answering, all lanes together
    cpu_s: float = 0.0  # processor time of this process meanwhile; the time of a server is not included
    tokens_per_s: float | None = None  # estimated tokens of the texts that it answered, by second
    usage: Usage | None = None
    perplexity: float | None = None  # of the texts that it scored, together
    same: float | None = None  # share of results that equal the first provider's: text, or order of candidates
    difference: float | None = None  # largest, of a score: nats per token; mean, of texts: share of changed words;
    # mean, of rankings: 1 - rank-biased overlap
    agreement: str | None = None  # in a sentence, where A is the first provider and B this one


@dataclass(frozen=True, slots=True)
class _Run:
    """The answers of a provider to the whole sample, and how long it took."""

    documents: Sequence[PlannedDocument]
    answers: Answers  # in the order of the documents
    open_s: float
    seconds: float
    cpu_s: float

    @property
    def outcomes(self) -> dict[int, Outcome]:
        """The outcomes of the documents that were answered, by position."""
        pairs = zip(self.documents, self.answers.outcomes, strict=True)
        return {document.position: outcome for document, outcome in pairs if not isinstance(outcome, Unanswered)}

    @property
    def unanswered(self) -> list[str]:
        """Why each of the other documents was not answered."""
        return [outcome.reason for outcome in self.answers.outcomes if isinstance(outcome, Unanswered)]


def try_providers(spec: JobSpec, documents: Sequence[Document], arguments: WorkerArguments) -> Iterator[ProviderTrial]:
    """Yield a trial of each provider of the job, in the order of the job."""
    providers = Providers(arguments)
    num_lanes = lanes_of(arguments.device, arguments.settings.lanes)
    first: dict[int, Outcome] | None = None
    for choice in spec.providers.choices:
        job = ProviderJob(spec, choice)
        if choice.skipped is not None:
            yield ProviderTrial(provider=choice.name, model=job.model, why_not=choice.skipped)
            continue
        try:
            run = _run(job, _cut_sample(spec, documents, num_lanes), providers, num_lanes)
        except KvjobsError as error:
            yield ProviderTrial(provider=choice.name, model=job.model, why_not=str(error))
            continue
        yield _trial(choice, job, documents, run, first)
        if first is None and any(_is_result(outcome) for outcome in run.outcomes.values()):
            first = run.outcomes


def _cut_sample(spec: JobSpec, documents: Sequence[Document], num_lanes: int) -> Sequence[Batch]:
    """Batches as a lease cuts them, but small enough for every lane to get `BATCHES_PER_LANE`."""
    planned = [
        PlannedDocument(position, document.text, document.estimated_tokens)
        for position, document in enumerate(documents)
    ]
    limits, tokens = batch_limits(spec.kind), sum(document.estimated_tokens for document in planned)
    share = max(1, tokens // (num_lanes * BATCHES_PER_LANE))
    return plan_batches(planned, min(limits.tokens, share), limits.documents)


def _run(job: ProviderJob, batches: Sequence[Batch], providers: Providers, num_lanes: int) -> _Run:
    """Answer the batches with one provider. Raises an error that the provider raises for every document."""
    lanes = [_lane(Lane(number, providers), job.choice.name) for number in range(num_lanes)]
    started = time.perf_counter()
    for lane in lanes:
        lane.open(job)
    open_s = time.perf_counter() - started
    answers: dict[int, Answers] = {}  # by the number of the batch
    errors: list[BaseException] = []
    numbers = count()  # next() of it is atomic

    def work(lane: AnsweringLane) -> None:
        try:
            while not errors and (number := next(numbers)) < len(batches):
                answers[number] = lane.process(job, batches[number], RunContext())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(lane,), daemon=True) for lane in lanes]
    started, cpu_started = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
    if errors:
        raise errors[0]
    return _Run(
        documents=list(chain.from_iterable(batches)),
        answers=join(answers[number] for number in range(len(batches))),
        open_s=open_s,
        seconds=seconds,
        cpu_s=cpu_s,
    )


def _lane(lane: Lane, name: str) -> AnsweringLane:
    """A provider's lane, isolated as in a worker."""
    return BisectingLane(lane.provider(name)) if lane.is_local(name) else lane.provider(name)


def _trial(
    choice: Choice, job: ProviderJob, documents: Sequence[Document], run: _Run, first: dict[int, Outcome] | None
) -> ProviderTrial:
    results = {position: outcome for position, outcome in run.outcomes.items() if _is_result(outcome)}
    tokens = sum(documents[position].estimated_tokens for position in results)
    scores = [outcome for outcome in results.values() if isinstance(outcome, Score)]
    same, difference, agreement = _compare(first or {}, results)
    return ProviderTrial(
        provider=choice.name,
        model=job.model,
        documents=len(results),
        failed=len(run.outcomes) - len(results),
        unanswered=len(run.unanswered),
        reason=next(iter(run.unanswered), None) or _first_failure(run.outcomes),
        open_s=run.open_s,
        seconds=run.seconds,
        cpu_s=run.cpu_s,
        tokens_per_s=tokens / run.seconds if results else None,
        usage=next(iter(run.answers.usage), None),
        perplexity=measures.perplexity(
            sum(score.nll_sum for score in scores), sum(score.num_tokens for score in scores)
        ),
        same=same,
        difference=difference,
        agreement=agreement,
    )


def _compare(first: dict[int, Outcome], results: dict[int, Outcome]) -> tuple[float | None, float | None, str | None]:
    """How the results agree with the first provider's: the share that is the same, the difference, and a sentence."""
    pairs = [(first[position], outcome) for position, outcome in sorted(results.items()) if position in first]
    scores, texts, orders = ScoresCompared(), TranslationsCompared(), RankingsCompared()
    compared = 0
    for a, b in pairs:
        match a, b:
            case Score(), Score():
                scores.add((a.nll_sum, a.num_tokens, a.num_bytes), (b.nll_sum, b.num_tokens, b.num_bytes))
            case (Translation(text=theirs), Translation(text=own)) | (Generation(text=theirs), Generation(text=own)):
                texts.add(theirs, own)
            case Ranking(), Ranking():
                orders.add([candidate.id for candidate in a.candidates], [candidate.id for candidate in b.candidates])
            case _:
                continue
        compared += 1
    if not compared:
        return None, None, None
    match pairs[0][1]:
        case Translation() | Generation():
            agreed = texts.result()
            return agreed.share_identical, agreed.mean_changed, agreed.sentence
        case Ranking():
            ranked = orders.result()
            rbo = None if ranked.rbo is None else 1 - ranked.rbo
            return ranked.identical / compared, rbo, ranked.sentence
    shift = scores.result()
    most = max((abs(value) for value in (shift.least, shift.greatest) if value is not None), default=None)
    return shift.identical / compared, most, shift.sentence


def _is_result(outcome: Outcome) -> bool:
    return not isinstance(outcome, Failed | Quarantined)


def _first_failure(outcomes: dict[int, Outcome]) -> str | None:
    by_position = (outcome for _, outcome in sorted(outcomes.items()))
    failures = (outcome.message for outcome in by_position if isinstance(outcome, Failed | Quarantined))
    return next(failures, None)
