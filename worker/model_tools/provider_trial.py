"""
The providers of a job tried on a sample, one after the other: how fast each answers, and how far its answers are from
those of the first.

    sample   -> batches                 as a worker would cut them, and small enough for every lane to get some
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
from jobs.store.queue.batches import MAX_TOKENS, MAX_TOKENS_OF_QUERIES, Batch, PlannedDocument, plan_batches
from worker.engine.runtime.device import lanes_of
from worker.engine.runtime.run_context import RunContext
from worker.isolation.bisect import BisectingLane
from worker.lane import Lane
from worker.providers.protocol import AnsweringLane, ProviderJob
from worker.providers.registry import Providers

BATCHES_PER_LANE = 4  # at least, where the sample is large enough: else one lane works while the others are idle


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTrial:
    """What one provider made of the sample. Of one that could not be tried, `why_not` says why and the rest is 0."""

    provider: str
    model: str  # its name there
    why_not: str | None = None
    documents: int = 0  # with a result
    failed: int = 0  # documents that are bad in themselves, as the provider finds
    unanswered: int = 0
    reason: str | None = None  # why the first of those was not answered
    open_s: float = 0.0  # until the model was ready
    seconds: float = 0.0  # of answering, all lanes together
    cpu_s: float = 0.0  # processor time of this process meanwhile; a server's is not in it
    tokens_per_s: float | None = None  # estimated tokens of the texts that it answered, by second
    usage: Usage | None = None
    perplexity: float | None = None  # of the texts that it scored, together
    same: float | None = None  # share of results that equal the first provider's: text, or order of candidates
    difference: float | None = None  # largest, of a score: nats per token; mean, of texts: share of changed words;
    # mean, of rankings: 1 - rank-biased overlap
    agreement: str | None = None  # in a sentence, where A is the first provider and B this one


@dataclass(frozen=True, slots=True)
class _Run:
    """What came back."""

    documents: Sequence[PlannedDocument]
    answers: Answers  # in their order
    open_s: float
    seconds: float
    cpu_s: float

    @property
    def outcomes(self) -> dict[int, Outcome]:
        """By position, of the documents that were answered."""
        pairs = zip(self.documents, self.answers.outcomes, strict=True)
        return {document.position: outcome for document, outcome in pairs if not isinstance(outcome, Unanswered)}

    @property
    def unanswered(self) -> list[str]:
        """Why the others were not."""
        return [outcome.reason for outcome in self.answers.outcomes if isinstance(outcome, Unanswered)]


def try_providers(spec: JobSpec, documents: Sequence[Document], arguments: WorkerArguments) -> Iterator[ProviderTrial]:
    """Yield a trial of each provider of the job, in their order."""
    providers = Providers(arguments)
    num_lanes = lanes_of(arguments.device, arguments.settings.lanes)
    first: dict[int, Outcome] | None = None
    for choice in spec.providers.choices:
        job = ProviderJob(spec, choice)
        if choice.skipped is not None:
            yield ProviderTrial(provider=choice.name, model=job.model, why_not=choice.skipped)
            continue
        try:
            run = _run(job, _cut(spec, documents, num_lanes), providers, num_lanes)
        except KvjobsError as error:
            yield ProviderTrial(provider=choice.name, model=job.model, why_not=str(error))
            continue
        yield _trial(choice, job, documents, run, first)
        if first is None and any(_is_result(outcome) for outcome in run.outcomes.values()):
            first = run.outcomes


def _cut(spec: JobSpec, documents: Sequence[Document], num_lanes: int) -> Sequence[Batch]:
    planned = [PlannedDocument(place, one.text, one.estimated_tokens) for place, one in enumerate(documents)]
    most = MAX_TOKENS_OF_QUERIES if spec.kind.has_candidates else MAX_TOKENS
    tokens = sum(one.estimated_tokens for one in planned)
    return plan_batches(planned, min(most, max(1, tokens // (num_lanes * BATCHES_PER_LANE))))


def _run(job: ProviderJob, batches: Sequence[Batch], providers: Providers, num_lanes: int) -> _Run:
    """Raises what the provider raises for every document."""
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
    results = {place: outcome for place, outcome in run.outcomes.items() if _is_result(outcome)}
    tokens = sum(documents[place].estimated_tokens for place in results)
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
        perplexity=measures.perplexity(sum(one.nll_sum for one in scores), sum(one.num_tokens for one in scores)),
        same=same,
        difference=difference,
        agreement=agreement,
    )


def _compare(first: dict[int, Outcome], results: dict[int, Outcome]) -> tuple[float | None, float | None, str | None]:
    """How the results agree with the first provider's: the share that is the same, the difference, and a sentence."""
    pairs = [(first[place], outcome) for place, outcome in sorted(results.items()) if place in first]
    scores, texts, orders = ScoresCompared(), TranslationsCompared(), RankingsCompared()
    compared = 0
    for a, b in pairs:
        match a, b:
            case Score(), Score():
                scores.add((a.nll_sum, a.num_tokens, a.num_bytes), (b.nll_sum, b.num_tokens, b.num_bytes))
            case (Translation(text=one), Translation(text=other)) | (Generation(text=one), Generation(text=other)):
                texts.add(one, other)
            case Ranking(), Ranking():
                orders.add([one.id for one in a.candidates], [one.id for one in b.candidates])
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
    failures = (one.message for _, one in sorted(outcomes.items()) if isinstance(one, Failed | Quarantined))
    return next(failures, None)
