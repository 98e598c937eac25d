"""What one call into an engine gave, whatever the task."""

from dataclasses import dataclass

from jobs.outcome import Learned, Outcome, StepTiming


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The outcomes of some documents, and what there is to tell besides."""

    outcomes: list[Outcome]  # in the order of the documents
    learned: Learned  # what the memory did not know
    timings: list[StepTiming]
