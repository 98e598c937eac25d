"""What one call into an engine gave, whatever the task."""

from dataclasses import dataclass

from jobs.outcome import Outcome, SegmentTranslation, StepTiming


@dataclass(frozen=True, slots=True)
class Produced:
    """The outcomes of some documents, and what there is to tell besides."""

    outcomes: list[Outcome]  # in the order of the documents
    learned: dict[bytes, SegmentTranslation]  # segments that the translation memory did not know
    timings: list[StepTiming]
