"""The page of `kvjobs show`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from jobs.choices import state_in_words
from jobs.documents import Reject
from jobs.facts.flags import flagged_command, flags_sentence
from jobs.facts.job import Fact, asked, reused_of, tokens_of
from jobs.facts.providers import change_words, mixed_models, reason_rows, used
from jobs.text.formatting import count, counted, duration, figure, moment, percent, speed

if TYPE_CHECKING:
    from jobs.advice.next_command import NextStep
    from jobs.store.report.failures import Failure
    from jobs.store.report.job_providers import JobProviders
    from jobs.store.report.job_summary import JobSummary
    from jobs.store.report.live_job import LiveJob
    from jobs.store.report.timings.steps import StepSummary

PHASES_SHOWN = 3
LONGEST_MESSAGE = 200  # characters of an error message; the export has all of it


def describe(
    job: "LiveJob",
    phases: "Sequence[StepSummary]",
    bad: "Sequence[Failure]",
    answers: "JobProviders",
    steps: "Sequence[NextStep]",
    finishes: Mapping[str, int] | None = None,
    chain: "Sequence[LiveJob]" = (),
    webhooks: str = "",
) -> Iterator[str]:
    """The lines of the page. `finishes`: of a generating job, how many continuations ended for each reason.
    `chain`: the jobs of its chain. `webhooks`: what became of those, in a sentence; empty: it has none."""
    yield f"Job {job.label}: {'open, ' if job.is_open else ''}{state_in_words(job.shown_state)}{job.because}"
    known = {fact.label: fact.value for fact in asked(job)}
    lines: dict[str, str] = {name: known[name] for name in ("task", "corpus", "model") if name in known}
    lines |= {"options": _options(known["options"]), "queue": known["queue and priority"]}
    lines |= {"owner": known["owner"]} if "owner" in known else {}
    lines["documents"] = _documents(job)
    if job.kind.has_model:
        lines["tokens"] = _tokens(job)
    if job.flags:
        lines |= {"flags": flags_sentence(job.flags), "see them": flagged_command(job)}
    if finishes:
        lines["ended"] = _finishes(job, finishes)
    lines["time"] = _times(job, known)
    if webhooks:
        lines["webhooks"] = webhooks
    yield from (f"  {name:<11}{text}" for name, text in lines.items())
    if len(chain) > 1:
        yield ""
        yield from _chain(job, chain)
    if not job.order.is_default:
        yield ""
        yield from _providers(job, answers)
    if phases:
        yield ""
        yield "Where the time went (seconds summed over all lanes)"
        whole = [phase for phase in phases if not phase.is_stage]
        for phase in [*whole[:PHASES_SHOWN], *(phase for phase in phases if phase.is_stage)]:
            yield (
                f"  {phase.group:<11}{percent(phase.share):>8}  {duration(phase.seconds):>12}  "
                f"{figure(phase.mean_ms)} ms a call, {figure(phase.mean_rows)} rows"
            )
    if bad:
        yield ""
        yield "What went wrong"
        for failure in bad:
            yield f"  {counted(failure.documents, 'document')} {failure.status}: {failure.code or 'no code'}"
            for sample in failure.samples:
                message = (sample.message or "")[:LONGEST_MESSAGE]
                name = f" (id {sample.id})" if sample.id else ""
                place = "" if failure.code == Reject.BAD_FILE else f"line {sample.line}{name}: "  # it names its file
                yield f"    {place}{message}"
    yield ""
    yield from next_lines(steps)


def next_lines(steps: "Sequence[NextStep]") -> Iterator[str]:
    """The commands, each with what it is for."""
    for step in steps:
        yield f"{'Next: ' if step is steps[0] else '      '}{step.command}"
        if step.why:
            yield f"      ({step.why})"


def _chain(job: "LiveJob", stages: "Sequence[LiveJob]") -> Iterator[str]:
    yield f"Stages of the chain (all results: kvjobs export {stages[0].job_id} --chain -o FILE)"
    for stage in stages:
        here = " <- this job" if stage.job_id == job.job_id else ""
        model = f" ({stage.model})" if stage.kind.has_model else ""
        what = f"{stage.task}{model}: {state_in_words(stage.shown_state)}, {_documents(stage)}"
        yield f"  {stage.stage}  job {stage.job_id}  {what}{here}"


def _providers(job: "JobSummary", found: "JobProviders") -> Iterator[str]:
    yield "Providers, in the order in which they are asked" + ("" if job.order.fallback else " (without fallback)")
    width = max(len(provider.provider) for provider in found.providers)
    for provider in found.providers:
        name = f"  {provider.provider:<{width}}  "
        if provider.skipped:
            yield f"{name}cannot do it: {provider.skipped}"
            continue
        bad = f", {count(provider.failed)} found bad" if provider.failed else ""
        yield f"{name}{counted(provider.documents, job.noun)} answered{bad}, model {provider.model}"
        yield from (f"{' ' * len(name)}{text}" for text in [used(provider)] if text)
        yield from (f"{' ' * len(name)}{text}" for text in reason_rows(provider))
    if found.unanswered:
        yield f"  {'none':<{width}}  {counted(found.unanswered, job.noun)} that no provider answered"
    if found.changes:
        yield ""
        which = f", the last {len(found.changes)} of {count(found.num_changes)}"
        yield "When a provider failed or recovered" + (which if found.num_changes > len(found.changes) else "")
        yield from (f"  {moment(change.at)}  {change_words(change)}" for change in found.changes)
        yield f"  With the reasons: kvjobs query --saved provider-changes -p job {job.job_id}"
    if warning := mixed_models(job, found):
        yield ""
        yield warning


def _tokens(job: "JobSummary") -> str:
    reused = reused_of(job)
    return tokens_of(job, in_line=True).remark + (f"; {count(reused.value)} {reused.remark} reused" if reused else "")


def _options(options: Sequence[Fact]) -> str:
    return ", ".join(f"{option.label} {_written(option.value)}" for option in options if option.value not in (None, []))


def _written(value: Any) -> str:
    """A list and a text with a line break as JSON, so that they stay on the line."""
    is_plain = isinstance(value, str) and value.isprintable() and "," not in value
    return str(value) if is_plain or isinstance(value, bool | int | float) else orjson.dumps(value).decode()


def _finishes(job: "JobSummary", finishes: Mapping[str, int]) -> str:
    """`3 by the model (eos), 2 at the limit (length)`"""
    words = job.kind.counted_by.words if job.kind.counted_by else {}
    return ", ".join(f"{count(number)} {words[finish]} ({finish})" for finish, number in finishes.items())


def _documents(job: "JobSummary") -> str:
    return job.counts_in_words + (f" ({percent(job.share_done)} done)" if 0 < job.share_done < 1 else "")


def _times(job: "LiveJob", known: Mapping[str, Any]) -> str:
    submitted = (
        f"submitted {moment(known['submitted'])}" if "submitted" in known else f"opened {moment(known['opened'])}"
    )
    submitted += f", closed {moment(known['closed'])}" if known.get("closed") else ""
    if "started" not in known:
        return f"{submitted}; the database filters, as the stage before it records its results"
    if known["started"] is None:
        return f"{submitted}; no worker has started it"
    pace = f", {speed(job.tokens_per_s)} on average" if job.tokens_per_s else ""
    recent = job.recent_tokens_per_s
    pace += f", {figure(recent)} in the last minute" if recent is not None else ""
    end = f" to {moment(known['ended'])}" if known["ended"] else ""
    left = f", about {duration(job.eta_s)} to go" if job.eta_s is not None else ""
    return f"{duration(known.get('took', known.get('for')))} from {moment(known['started'])}{end}{pace}{left}"
