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
    by = [(provider.documents, provider.provider) for provider in found.answering]
    by += [(found.unanswered, "no provider")] if found.unanswered else []
    if not by:
        return f"No {job.noun} is answered yet."
    (number, name), *more = by
    others = "".join(f", {count(some)} by {other}" for some, other in more)
    kept = f" {_KEPT_ORDER}" if found.unanswered and Flag.KEPT_ORDER in job.kind.flags else ""
    return f"{counted(number, job.noun)} answered by {name}{others}.{kept}"


def reasons_of(provider: "ProviderSummary") -> Iterator[str]:
    """Why a provider did not answer some documents, or any."""
    if provider.skipped:
        yield f"{provider.provider} was not asked: {provider.skipped}"
    for why, is_known in _causes_first(provider):
        if is_known:
            yield f"{provider.provider} was not asked for {count(why.documents)}: {_FAILED_BEFORE}"
        else:
            yield f"{provider.provider} did not answer {count(why.documents)} ({why.code}): {why.reason}"


def reason_rows(provider: "ProviderSummary") -> Iterator[str]:
    """The reasons of `reasons_of`, without the provider's name, to be shown below it."""
    for why, is_known in _causes_first(provider):
        if is_known:
            yield f"{count(why.documents)} not asked: {_FAILED_BEFORE}"
        else:
            yield f"{count(why.documents)} not answered ({why.code}): {why.reason}"


def _causes_first(provider: "ProviderSummary") -> Iterator[tuple["HandoverReason", bool]]:
    """The reasons of a provider, causes first. True: the provider was not asked because it had failed before."""
    causes = [why for why in provider.handovers if why.code != Reason.NOT_ASKED]
    yield from ((why, False) for why in causes)
    yield from ((why, bool(causes)) for why in provider.handovers if why.code == Reason.NOT_ASKED)


def used(provider: "ProviderSummary") -> str:
    """What a server says that it used; empty where it says nothing."""
    if not (provider.requests or provider.prompt_tokens or provider.completion_tokens):
        return ""
    cost = f", cost {figure(provider.cost)}" if provider.cost else ""
    tokens = f"{count(provider.prompt_tokens)} prompt and {count(provider.completion_tokens)} completion tokens"
    return f"{counted(provider.requests, 'request')}, {tokens}{cost}"


def change_words(change: "ProviderMoment") -> str:
    """A clause: whether the provider failed or recovered, and which one was asked instead."""
    if change.code == Reason.RECOVERED:
        return f"{change.provider} answers again"
    after = f"{change.next_provider} was asked instead" if change.next_provider else "no provider was left"
    return f"{change.provider} failed ({change.code}), {after}"


def mixed_models(job: "JobSummary", found: "JobProviders") -> str | None:
    """The warning that the perplexities of a job come from several models, and how to export one model's."""
    answering = found.answering
    if not job.kind.is_scored or len(answering) < 2:
        return None
    models = ", ".join(
        f"{count(provider.documents)} from {provider.model} at {provider.provider}" for provider in answering
    )
    most = max(answering, key=lambda provider: provider.documents)
    return (
        f"Caution: the perplexities of job {job.label} come from {len(answering)} models and cannot be compared with "
        f"each other: {models}. To keep those of one: kvjobs export {job.job_id} "
        f"--where \"provider = '{most.provider}'\""
    )
