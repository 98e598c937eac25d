"""Who answered a job, in words; for the terminal and the pages.

Knows: counts by provider. Does not know: databases, terminals, HTML.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobs.outcome import Flag
from jobs.providers import Reason
from jobs.text.formatting import count, counted, figure

if TYPE_CHECKING:
    from jobs.store.report.job_providers import HandoverReason, JobProviders, ProviderMoment, ProviderSummary
    from jobs.store.report.job_summary import JobSummary

_KEPT_ORDER = "What no provider answered keeps the order of the first stage; to try again: kvjobs submit ... --again"
_FAILED_BEFORE = "it had failed a moment before"


def answered_sentence(job: "JobSummary", found: "JobProviders") -> str:
    """`40 documents answered by onnx, 60 by openai, 2 by no provider.`"""
    by = [(one.documents, one.provider) for one in found.answering]
    by += [(found.unanswered, "no provider")] if found.unanswered else []
    if not by:
        return f"No {job.noun} is answered yet."
    (number, name), *more = by
    others = "".join(f", {count(some)} by {other}" for some, other in more)
    kept = f" {_KEPT_ORDER}" if found.unanswered and Flag.KEPT_ORDER in job.kind.flags else ""
    return f"{counted(number, job.noun)} answered by {name}{others}.{kept}"


def reasons_of(one: "ProviderSummary") -> Iterator[str]:
    """Why a provider did not answer some documents, or any."""
    if one.skipped:
        yield f"{one.provider} was not asked: {one.skipped}"
    for why, is_known in _causes_first(one):
        if is_known:
            yield f"{one.provider} was not asked for {count(why.documents)}: {_FAILED_BEFORE}"
        else:
            yield f"{one.provider} did not answer {count(why.documents)} ({why.code}): {why.reason}"


def reason_rows(one: "ProviderSummary") -> Iterator[str]:
    """The same below the provider's name."""
    for why, is_known in _causes_first(one):
        if is_known:
            yield f"{count(why.documents)} not asked: {_FAILED_BEFORE}"
        else:
            yield f"{count(why.documents)} not answered ({why.code}): {why.reason}"


def _causes_first(one: "ProviderSummary") -> Iterator[tuple["HandoverReason", bool]]:
    """The reasons of a provider; True for one that only repeats another: it was not asked since it had failed."""
    causes = [why for why in one.handovers if why.code != Reason.NOT_ASKED]
    yield from ((why, False) for why in causes)
    yield from ((why, bool(causes)) for why in one.handovers if why.code == Reason.NOT_ASKED)


def used(one: "ProviderSummary") -> str:
    """What a server says that it used; empty where it says nothing."""
    if not (one.requests or one.prompt_tokens or one.completion_tokens):
        return ""
    cost = f", cost {figure(one.cost)}" if one.cost else ""
    tokens = f"{count(one.prompt_tokens)} prompt and {count(one.completion_tokens)} completion tokens"
    return f"{counted(one.requests, 'request')}, {tokens}{cost}"


def change_words(one: "ProviderMoment") -> str:
    """What happened at a moment of change."""
    if one.code == Reason.RECOVERED:
        return f"{one.provider} answers again"
    after = f"{one.next_provider} was asked instead" if one.next_provider else "no provider was left"
    return f"{one.provider} failed ({one.code}), {after}"


def mixed_models(job: "JobSummary", found: "JobProviders") -> str | None:
    """The warning that the perplexities of a job come from several models, and how to keep those of one."""
    answering = found.answering
    if not job.kind.has_totals or len(answering) < 2:
        return None
    models = ", ".join(f"{count(one.documents)} from {one.model} at {one.provider}" for one in answering)
    most = max(answering, key=lambda one: one.documents)
    return (
        f"Caution: the perplexities of job {job.label} come from {len(answering)} models and cannot be compared with "
        f"each other: {models}. To keep those of one: kvjobs export {job.job_id} "
        f"--where \"provider = '{most.provider}'\""
    )
