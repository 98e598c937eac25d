"""The result of one call of a task's engine; the same type for every task."""

from dataclasses import dataclass

from jobs.outcome import Learned, Outcome, StepTiming


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The outcomes of a batch of documents, new entries for the result memory, and the time of each step."""

    outcomes: list[Outcome]  # in the order of the documents
    learned: Learned  # results to store in the memory, by key
    timings: list[StepTiming]
