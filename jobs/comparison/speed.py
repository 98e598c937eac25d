"""How fast two jobs were: as a whole, and phase by phase.

Speed is text per second: seconds over the estimated tokens of the documents that ended (`JobSummary.estimated_done`),
which follow from the length of the texts alone. Tokens as models count them differ between vocabularies, and without a
cache more positions are computed for the same result.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.store.report.job_summary import JobSummary
from jobs.store.report.timings.steps import StepSummary
from jobs.text.formatting import figure


@dataclass(frozen=True, slots=True)
class PhaseSpeed:
    """One phase in both jobs; None where a job does not have it."""

    phase: str
    a_seconds: float | None  # summed over lanes
    b_seconds: float | None
    a_calls: int | None
    b_calls: int | None
    times_as_fast: float | None  # B by A, for the same amount of text; above 1: B is faster


@dataclass(frozen=True, slots=True)
class Speed:
    """How long both jobs took as a whole and in each phase."""

    a_seconds: float | None  # from the first lease to the end
    b_seconds: float | None
    a_tokens_per_s: float | None  # as `kvjobs ls` shows it
    b_tokens_per_s: float | None
    times_as_fast: float | None  # B by A, for the same amount of text; above 1: B is faster
    phases: Sequence[PhaseSpeed]  # the longest first

    @property
    def sentence(self) -> str:
        if self.times_as_fast is None:
            return "The jobs cannot be compared in speed: one has no result yet."
        sentence = f"B {as_factor(self.times_as_fast)} A"
        known = [phase for phase in self.phases if phase.a_seconds is not None and phase.b_seconds is not None]
        if known:
            most = max(known, key=lambda phase: abs((phase.b_seconds or 0) - (phase.a_seconds or 0)))
            if most.times_as_fast is not None:
                sentence += f"; the phase that changed most is {most.phase}, which {as_factor(most.times_as_fast)} in A"
        return f"{sentence}."


def as_factor(times_as_fast: float) -> str:
    """1.53 as `is 1.53 times as fast as`, 0.5 as `takes 2.00 times as long as`."""
    if figure(times_as_fast) == figure(1.0):
        return "is as fast as"
    if times_as_fast > 1:
        return f"is {figure(times_as_fast)} times as fast as"
    return f"takes {figure(1 / times_as_fast)} times as long as"


def compare_speed(
    a: JobSummary, b: JobSummary, a_phases: Sequence[StepSummary], b_phases: Sequence[StepSummary]
) -> Speed:
    """The speed of both jobs as a whole, and of their phases, the longest first."""
    in_a = {phase.group: phase for phase in a_phases}
    in_b = {phase.group: phase for phase in b_phases}

    def of_phase(name: str) -> PhaseSpeed:
        mine, theirs = in_a.get(name), in_b.get(name)
        return PhaseSpeed(
            phase=name,
            a_seconds=mine.seconds if mine else None,
            b_seconds=theirs.seconds if theirs else None,
            a_calls=mine.calls if mine else None,
            b_calls=theirs.calls if theirs else None,
            times_as_fast=_times(a, b, mine.seconds if mine else None, theirs.seconds if theirs else None),
        )

    def longest(phase: PhaseSpeed) -> float:
        return -max(phase.a_seconds or 0.0, phase.b_seconds or 0.0)

    return Speed(
        a_seconds=a.elapsed_s,
        b_seconds=b.elapsed_s,
        a_tokens_per_s=a.tokens_per_s,
        b_tokens_per_s=b.tokens_per_s,
        times_as_fast=_times(a, b, a.elapsed_s, b.elapsed_s),
        phases=sorted((of_phase(name) for name in dict.fromkeys([*in_a, *in_b])), key=longest),
    )


def _times(a: JobSummary, b: JobSummary, a_seconds: float | None, b_seconds: float | None) -> float | None:
    if not (a_seconds and b_seconds and a.estimated_done and b.estimated_done):
        return None
    return (a_seconds / a.estimated_done) / (b_seconds / b.estimated_done)
