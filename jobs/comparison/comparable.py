"""Which jobs can be compared, and what a reader has to know of the comparison."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from jobs.choices import state_in_words
from jobs.errors import SpecError
from jobs.facts.job import reused_of
from jobs.facts.providers import answered_sentence, mixed_models
from jobs.store.report.job_providers import JobProviders
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.live_job import LiveJob
from jobs.text.formatting import count, counted

NOT_SHOWN = ("timing",)  # an option that changes no result


@dataclass(frozen=True, slots=True)
class Contrast:
    """A property of both jobs."""

    name: str
    a: Any
    b: Any

    @property
    def differs(self) -> bool:
        return bool(self.a != self.b)


def require_comparable(a: JobSummary, b: JobSummary) -> None:
    """Raise SpecError, with the reason, where two jobs cannot be compared."""
    if a.job_id == b.job_id:
        raise SpecError(f"job {a.label} is compared with itself: name two jobs")
    if a.task != b.task:
        raise SpecError(
            f"job {a.label} has the task {a.task} and job {b.label} the task {b.task}: only jobs of the same task can "
            "be compared"
        )
    if a.kind.compared_as is None:
        how = "make" if a.kind.has_model else "keep"
        raise SpecError(f"two {a.task}s are compared by what they {how}: kvjobs export each, and compare the files")
    if _options(a).get("pairs") != _options(b).get("pairs"):
        alone, pairs = (b, a) if _options(a).get("pairs") else (a, b)
        raise SpecError(
            f"job {pairs.label} scores targets given their sources and job {alone.label} texts alone: these are "
            "different quantities, which cannot be compared"
        )
    for job in (a, b):
        if not job.succeeded:
            raise SpecError(f"job {job.label} has no result yet: there is nothing to compare")


def contrasts(a: JobSummary, b: JobSummary) -> list[Contrast]:
    """What the jobs were made of: those properties that people choose, then the options that differ."""
    first, second = _options(a), _options(b)
    names = [name for name in dict.fromkeys([*first, *second]) if name not in NOT_SHOWN]
    options = [Contrast(name.replace("_", " "), first.get(name), second.get(name)) for name in names]
    return [
        Contrast("corpus", a.source, b.source),
        Contrast("model", a.model, b.model),
        Contrast("model revision", a.model_revision[:12], b.model_revision[:12]),
        Contrast("providers", str(a.order), str(b.order)),
        *(option for option in options if option.differs),
    ]


def notes(a: LiveJob, b: LiveJob) -> Iterator[str]:
    """Cautions that follow from the jobs alone, a sentence each."""
    for job, name in ((a, "A"), (b, "B")):
        if not job.has_ended:
            state = state_in_words(job.shown_state)
            yield f"{name} has not ended ({state}): {counted(job.waiting, 'document')} waiting."
    for job, name in ((a, "A"), (b, "B")):
        if (reused := reused_of(job)) and reused.value:
            yield (
                f"{name} took {count(reused.value)} {reused.remark} from the memory of earlier jobs, so its speed is "
                "not that of the model; --no-reuse computes everything."
            )


def provider_notes(jobs: Iterable[tuple[JobSummary, JobProviders]]) -> Iterator[str]:
    """Who answered A and B, where that is not one provider alone."""
    for (job, found), name in zip(jobs, ("A", "B"), strict=True):
        if warning := mixed_models(job, found):
            yield f"{name}: {warning}"
        elif len(found.answering) > 1 or found.unanswered:
            yield f"{name}: {answered_sentence(job, found)}"


def _options(job: JobSummary) -> dict[str, Any]:
    options: dict[str, Any] = json.loads(job.options)
    return options
