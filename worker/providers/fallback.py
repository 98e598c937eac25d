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
from dataclasses import replace
from typing import Protocol

from jobs.answers import Answers, Unanswered, join
from jobs.errors import KvjobsError, ModelError, NotFoundError, SpecError
from jobs.outcome import Failed, Outcome
from jobs.providers import NO_PROVIDER, UNANSWERED, Choice, Handover, Reason
from jobs.spec import JobSpec
from jobs.store.queue.batches import Batch, PlannedDocument
from jobs.tasks.document_options import own_value
from jobs.tasks.translate import TranslateOptions
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.length_limit import flag_too_long
from worker.engine.tasks.rerank.rerank_payload import keep_order
from worker.providers.circuit_breaker import CircuitBreaker
from worker.providers.protocol import AnsweringLane, ProviderFailure, ProviderJob

log = logging.getLogger(__name__)

MAX_JOBS = 16  # jobs whose failing providers a lane remembers
# Where no provider is left that could answer instead, batches wait for a dead one before their documents fail: else a
# server's restart would cost thousands of documents. Not for ever: other jobs need the lane.
LONGEST_WAIT_S, WAIT_STEP_S = 30.0, 0.2  # for a lane and a job, until the provider answers again
PASSING = (Reason.UNREACHABLE, Reason.TIMEOUT, Reason.SERVER_ERROR, Reason.RATE_LIMIT)  # waiting may help

_Refused = tuple[str, dict[int, Unanswered]]  # a provider's name, and by index of a document why it was not answered


class Lanes(Protocol):
    """The providers of a job as a batch asks them."""

    def is_local(self, name: str) -> bool:
        """Whether the provider computes in this process. Raises SpecError where there is none of this name."""

    def provider(self, name: str) -> AnsweringLane:
        """The provider's lane, wrapped so that documents are isolated. Raises SpecError for an unknown name."""

    def pause(self, seconds: float) -> None:
        """Wait. Raises Stopped where the worker is to stop."""


class Fallback:
    """One lane's providers in the order of a job. Remembers which of them fail, to tell when that changes."""

    def __init__(self, breaker_of: Callable[[tuple[str, str, str]], CircuitBreaker]) -> None:
        self._breaker_of = breaker_of
        self._failing: OrderedDict[int, dict[str, Reason]] = OrderedDict()  # by job, then by provider
        self._waited_s: dict[int, float] = {}  # for the last provider, by job

    def answer(self, job_id: int, spec: JobSpec, documents: Batch, lanes: Lanes, run: RunContext) -> Answers:
        """Answer every document.

        Raises Stopped. Where a single provider can do the job and computes in this process, raises ModelError,
        NotFoundError, SpecError and ProviderFailure too: every document would fail, and a person has to look.
        """
        usable = spec.providers.usable if spec.providers.fallback else spec.providers.usable[:1]
        may_raise = len(usable) == 1 and lanes.is_local(usable[0].name)
        outcomes: dict[int, tuple[str, Outcome]] = {}  # by index, with the provider that gave it
        refused: list[_Refused] = []
        given: list[Answers] = []
        for choice in usable:
            if not (waiting := [index for index in range(len(documents)) if index not in outcomes]):
                break
            job = ProviderJob(spec, choice)
            if choice is usable[-1]:
                self._wait_until_due(job_id, job, lanes)
            left = tuple(documents[index] for index in waiting)
            given.append(self._try_provider(job, left, lanes, run, may_raise=may_raise))
            refused.append((choice.name, {}))
            for index, outcome in zip(waiting, given[-1].outcomes, strict=True):
                if isinstance(outcome, Unanswered):
                    refused[-1][1][index] = outcome
                else:
                    outcomes[index] = choice.name, _checked(outcome, documents[index], spec)
        for index, document in enumerate(documents):
            if index not in outcomes:
                outcomes[index] = NO_PROVIDER, _exhausted(spec, document.text, refused, index)
        return replace(
            join(given),
            outcomes=[outcomes[index][1] for index in range(len(documents))],
            answered_by=[outcomes[index][0] for index in range(len(documents))],
            handovers=self._handovers(job_id, usable, refused),
        )

    def _wait_until_due(self, job_id: int, job: ProviderJob, lanes: Lanes) -> None:
        """Wait until the provider's circuit breaker lets it be asked, where waiting may help."""
        breaker = self._breaker_of(job.key)
        if breaker.is_closed:
            self._waited_s.pop(job_id, None)
        while breaker.is_pausing_for(PASSING) and (waited_s := self._waited_s.get(job_id, 0.0)) < LONGEST_WAIT_S:
            lanes.pause(WAIT_STEP_S)
            self._waited_s[job_id] = waited_s + WAIT_STEP_S

    def _try_provider(
        self, job: ProviderJob, documents: Batch, lanes: Lanes, run: RunContext, *, may_raise: bool
    ) -> Answers:
        """Try one provider for documents that wait for an answer."""
        breaker = self._breaker_of(job.key)
        if not may_raise and (why := breaker.why_open()):
            not_asked = Unanswered(Reason.NOT_ASKED, f"it failed a moment ago and is asked again later: {why.reason}")
            return Answers([not_asked] * len(documents))
        # A provider that failed is tried with one document first: that costs one time-out, not one a document.
        first = len(documents) if breaker.is_closed else 1
        given: list[Answers] = []
        for part in filter(None, (documents[:first], documents[first:])):
            is_open = False
            try:
                lane = lanes.provider(job.choice.name)
                lane.open(job)
                is_open = True
                given.append(lane.process(job, part, run))
            except (ModelError, NotFoundError, SpecError, ProviderFailure) as error:
                if may_raise:
                    raise
                given.append(Answers([_unanswered(error, is_open=is_open)] * len(part)))
            if failure := given[-1].failure:
                log.warning("provider %s failed (%s): %s", job.choice, failure.code, failure.reason)
                breaker.failed(failure)
                left = len(documents) - sum(len(answers.outcomes) for answers in given)
                return join([*given, Answers([failure] * left)])
        breaker.answered()
        return join(given)

    def _handovers(self, job_id: int, usable: Sequence[Choice], refused: Sequence[_Refused]) -> list[Handover]:
        """How many documents each provider handed over, by reason; and which providers answer again."""
        failing = self._failing.setdefault(job_id, {})
        self._failing.move_to_end(job_id)
        while len(self._failing) > MAX_JOBS:
            forgotten, _ = self._failing.popitem(last=False)
            self._waited_s.pop(forgotten, None)
        following = [choice.name for choice in usable[1:]]
        handovers: list[Handover] = []
        for (name, whys_by_index), next_name in zip(refused, [*following, None], strict=False):
            by_code: dict[Reason, list[Unanswered]] = {}
            for why in whys_by_index.values():
                by_code.setdefault(why.code, []).append(why)
            for code, whys in by_code.items():
                is_known = name in failing and code in (failing[name], Reason.NOT_ASKED)
                is_change = whys[0].is_failure and not is_known
                if is_change:
                    failing[name] = code
                handovers.append(Handover(name, next_name, code, whys[0].reason, len(whys), is_change))
            if name in failing and not any(why.is_failure for why in whys_by_index.values()):
                del failing[name]
                handovers.append(Handover(name, None, Reason.RECOVERED, "it answers again", 0, is_change=True))
        return handovers


def _checked(outcome: Outcome, document: PlannedDocument, spec: JobSpec) -> Outcome:
    """An outcome with the flag that follows from the longest translation that a document may have: a server does not
    look for one that fits."""
    options = spec.options
    if not isinstance(options, TranslateOptions) or options.max_chars is None:
        return outcome
    return flag_too_long(outcome, own_value(document.own_options, "max_chars") or options.max_chars, options.markup)


def _exhausted(spec: JobSpec, text: str, refused: Sequence[_Refused], index: int) -> Outcome:
    """The outcome of a document that no provider answered."""
    reasons = [f"{name}: {whys[index].reason}" for name, whys in refused if index in whys]
    reasons += [f"{choice.name}: {choice.skipped}" for choice in spec.providers.choices if choice.skipped]
    why = f"no provider answered; {'; '.join(reasons)}"
    return keep_order(text, why) if spec.kind.has_candidates else Failed(UNANSWERED, why)


def _unanswered(error: KvjobsError, *, is_open: bool) -> Unanswered:
    match error:
        case ProviderFailure():
            return Unanswered(error.reason, str(error))
        case NotFoundError():
            return Unanswered(Reason.NO_MODEL, str(error))
        case _:
            return Unanswered(Reason.ENGINE_ERROR if is_open else Reason.OPEN_ERROR, str(error))
