"""
What became of the documents of a batch: one shape, from the engine that computes them up to the transaction that
records them. Needs only the standard library.

    engine -> Answers     isolation, and each provider of a job, join theirs     Answers -> record
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from jobs.outcome import Learned, Outcome, StepTiming
from jobs.providers import Handover, Reason, Usage


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A document that a provider did not answer, and why."""

    code: Reason
    reason: str  # a sentence without the provider's name

    @property
    def is_failure(self) -> bool:
        """Whether the provider failed; else it works and cannot answer this one document."""
        return self.code is not Reason.DECLINED


@dataclass(frozen=True, slots=True)
class Answers:
    """The outcomes of some documents, what the memory learns from them, and what they took."""

    outcomes: Sequence[Outcome | Unanswered]  # in the order of the documents; every recorded document has one
    learned: Learned = field(default_factory=dict)  # results to store in the memory, by key
    timings: Sequence[StepTiming] = ()
    usage: Sequence[Usage] = ()  # of each provider that counts
    answered_by: Sequence[str] = ()  # the provider of each outcome; empty: onnx, of all of them
    handovers: Sequence[Handover] = ()

    @property
    def failure(self) -> Unanswered | None:
        """The first failure of the provider; None: it works."""
        unanswered = (outcome for outcome in self.outcomes if isinstance(outcome, Unanswered))
        return next((why for why in unanswered if why.is_failure), None)


def join(parts: Iterable[Answers]) -> Answers:
    """The answers to the documents of all parts, one part after the other; `answered_by` is not set yet."""
    given = list(parts)
    usage: dict[str, Usage] = {}
    for used in (used for part in given for used in part.usage):
        usage[used.provider] = usage[used.provider] + used if used.provider in usage else used
    return Answers(
        outcomes=[outcome for part in given for outcome in part.outcomes],
        learned={key: result for part in given for key, result in part.learned.items()},
        timings=[timing for part in given for timing in part.timings],
        usage=list(usage.values()),
    )
