"""
The order of a job's providers: each gets the documents that the ones before it did not answer.

    onnx    answers 60 of 100, then fails     openai    gets 40, answers 39     ollama    gets 1

A document that is bad in itself has an outcome, `Failed`, and is not asked elsewhere. Where no provider is left, a
document to translate or to score fails with the reason of each, and a query keeps the order of its candidates.

Knows: providers, circuit breakers. Does not know: how a provider computes, leases, tables.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jobs.errors import KvjobsError, ModelError, NotFoundError, SpecError
from jobs.outcome import Failed, Learned, Outcome, StepTiming
from jobs.providers import NO_PROVIDER, UNANSWERED, BatchProviders, Choice, Handover, Reason, Usage
from jobs.spec import JobSpec, Task
from jobs.store.batches import Batch
from worker.engine.tasks.rerank.rerank_payload import keep_order
from worker.providers.circuit_breaker import CircuitBreaker
from worker.providers.protocol import ProviderAnswer, ProviderFailure, ProviderJob, Unanswered

log = logging.getLogger(__name__)

MAX_JOBS = 16  # whose failing providers a lane remembers
# Where no provider is left that could answer instead, batches wait for a dead one before their documents fail: else a
# server's restart would cost thousands of documents. Not for ever: other jobs need the lane.
LONGEST_WAIT_S, WAIT_STEP_S = 30.0, 0.2  # of a lane and a job, until the provider answers again
PASSING = (Reason.UNREACHABLE, Reason.TIMEOUT, Reason.SERVER_ERROR, Reason.RATE_LIMIT)  # waiting may help


class AskProvider(Protocol):
    """How a lane asks one of its providers."""

    def is_local(self, name: str) -> bool:
        """Whether it computes in this process."""

    def open(self, job: ProviderJob) -> None:
        """See `ProviderLane.open`."""

    def process(self, job: ProviderJob, documents: Batch) -> ProviderAnswer:
        """See `ProviderLane.process`."""

    def pause(self, seconds: float) -> None:
        """Wait. Raises Stopped where the worker is to stop."""


@dataclass(frozen=True, slots=True)
class AnsweredBatch:
    """A batch of documents with an outcome for each."""

    outcomes: list[Outcome]  # in the order of the documents
    learned: Learned
    timings: list[StepTiming]
    providers: BatchProviders


@dataclass(slots=True)
class _Batch:
    """A batch while its documents are being answered. Indices are those of `documents`."""

    documents: Batch
    outcomes: dict[int, tuple[str, Outcome]] = field(default_factory=dict)  # with the provider that gave it
    refused: list[tuple[str, dict[int, Unanswered]]] = field(default_factory=list)  # by provider, in order
    learned: Learned = field(default_factory=dict)
    timings: list[StepTiming] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)

    @property
    def waiting(self) -> list[int]:
        """The documents without an outcome."""
        return [index for index in range(len(self.documents)) if index not in self.outcomes]

    def add(self, name: str, indices: Sequence[int], answer: ProviderAnswer) -> dict[int, Unanswered]:
        """Keep what a provider answered; what it did not."""
        refused = {}
        for index, outcome in zip(indices, answer.outcomes, strict=True):
            if isinstance(outcome, Unanswered):
                refused[index] = outcome
            else:
                self.outcomes[index] = (name, outcome)
        self.learned |= answer.learned
        self.timings += answer.timings
        if answer.usage:
            known = self.usage.get(name)
            self.usage[name] = answer.usage if known is None else known + answer.usage
        return refused


class Fallback:
    """One lane's providers in the order of a job. Remembers which of them fail, to tell when that changes."""

    def __init__(self, breaker_of: Callable[[tuple[str, str, str]], CircuitBreaker]) -> None:
        self._breaker_of = breaker_of
        self._failing: OrderedDict[int, dict[str, Reason]] = OrderedDict()  # by job, then by provider
        self._waited_s: dict[int, float] = {}  # for the last provider, by job

    def answer(self, job_id: int, spec: JobSpec, documents: Batch, ask: AskProvider) -> AnsweredBatch:
        """Answer every document.

        Raises Stopped. Where a single provider can do the job and computes in this process, raises ModelError,
        NotFoundError, SpecError and ProviderFailure too: every document would fail, and a person has to look.
        """
        usable = spec.providers.usable if spec.providers.fallback else spec.providers.usable[:1]
        batch = _Batch(documents)
        may_raise = len(usable) == 1 and ask.is_local(usable[0].name)
        for choice in usable:
            if not (waiting := batch.waiting):
                break
            job = ProviderJob(spec, choice)
            if choice is usable[-1]:
                self._wait_until_due(job_id, job, ask)
            refused = self._ask(job, batch, waiting, ask, may_raise=may_raise)
            batch.refused.append((choice.name, refused))
        handovers = self._handovers(job_id, usable, batch)
        outcomes = [batch.outcomes.get(index) or _exhausted(spec, batch, index) for index in range(len(documents))]
        return AnsweredBatch(
            outcomes=[outcome for _, outcome in outcomes],
            learned=batch.learned,
            timings=batch.timings,
            providers=BatchProviders([name for name, _ in outcomes], handovers, list(batch.usage.values())),
        )

    def _wait_until_due(self, job_id: int, job: ProviderJob, ask: AskProvider) -> None:
        """Wait until the provider's circuit breaker lets it be asked, where waiting may help."""
        breaker = self._breaker_of(job.key)
        if breaker.is_closed:
            self._waited_s.pop(job_id, None)
        while breaker.is_pausing_for(PASSING) and (waited_s := self._waited_s.get(job_id, 0.0)) < LONGEST_WAIT_S:
            ask.pause(WAIT_STEP_S)
            self._waited_s[job_id] = waited_s + WAIT_STEP_S

    def _ask(
        self, job: ProviderJob, batch: _Batch, waiting: list[int], ask: AskProvider, *, may_raise: bool
    ) -> dict[int, Unanswered]:
        """Ask one provider for the documents that wait; those that it did not answer."""
        breaker = self._breaker_of(job.key)
        if not may_raise and (why := breaker.why_open()):
            not_asked = Unanswered(Reason.NOT_ASKED, f"it failed a moment ago and is asked again later: {why.reason}")
            return dict.fromkeys(waiting, not_asked)
        # A provider that failed is tried with one document first: that costs one time-out, not one a document.
        parts = [waiting] if breaker.is_closed else [waiting[:1], waiting[1:]]
        refused: dict[int, Unanswered] = {}
        for part in parts:
            if not part:
                continue
            is_open = False
            try:
                ask.open(job)
                is_open = True
                answer = ask.process(job, tuple(batch.documents[index] for index in part))
            except (ModelError, NotFoundError, SpecError, ProviderFailure) as error:
                if may_raise:
                    raise
                refused |= dict.fromkeys(part, _unanswered(error, is_open=is_open))
            else:
                refused |= batch.add(job.choice.name, part, answer)
            if failure := next((why for why in refused.values() if why.is_failure), None):
                log.warning("provider %s failed (%s): %s", job.choice, failure.code, failure.reason)
                breaker.failed(failure)
                left = [index for index in waiting if index not in batch.outcomes and index not in refused]
                return refused | dict.fromkeys(left, failure)
        breaker.answered()
        return refused

    def _handovers(self, job_id: int, usable: Sequence[Choice], batch: _Batch) -> list[Handover]:
        """What each provider handed over, by reason; and which providers answer again."""
        failing = self._failing.setdefault(job_id, {})
        self._failing.move_to_end(job_id)
        while len(self._failing) > MAX_JOBS:
            forgotten, _ = self._failing.popitem(last=False)
            self._waited_s.pop(forgotten, None)
        following = [choice.name for choice in usable[1:]]
        handovers: list[Handover] = []
        for place, (name, refused) in enumerate(batch.refused):
            next_name = following[place] if place < len(following) else None
            by_code: dict[Reason, list[Unanswered]] = {}
            for why in refused.values():
                by_code.setdefault(why.code, []).append(why)
            for code, whys in by_code.items():
                is_known = name in failing and code in (failing[name], Reason.NOT_ASKED)
                is_change = whys[0].is_failure and not is_known
                if is_change:
                    failing[name] = code
                handovers.append(Handover(name, next_name, code, whys[0].reason, len(whys), is_change))
            if name in failing and not any(why.is_failure for why in refused.values()):
                del failing[name]
                handovers.append(Handover(name, None, Reason.RECOVERED, "it answers again", 0, is_change=True))
        return handovers


def _exhausted(spec: JobSpec, batch: _Batch, index: int) -> tuple[str, Outcome]:
    """The outcome of a document that no provider answered."""
    reasons = [f"{name}: {refused[index].reason}" for name, refused in batch.refused if index in refused]
    reasons += [f"{choice.name}: {choice.skipped}" for choice in spec.providers.choices if choice.skipped]
    why = f"no provider answered; {'; '.join(reasons)}"
    if spec.task is Task.RERANK:
        return NO_PROVIDER, keep_order(batch.documents[index].text, why)
    return NO_PROVIDER, Failed(UNANSWERED, why)


def _unanswered(error: KvjobsError, *, is_open: bool) -> Unanswered:
    match error:
        case ProviderFailure():
            return Unanswered(error.reason, str(error))
        case NotFoundError():
            return Unanswered(Reason.NO_MODEL, str(error))
        case _:
            return Unanswered(Reason.ENGINE_ERROR if is_open else Reason.OPEN_ERROR, str(error))
