"""The last message of `submit --wait` and `watch --work`: how a job ended, and what to do next."""

from jobs.addresses.address import Location
from jobs.cli.job_exit import is_tolerated
from jobs.facts.flags import flags_at_the_end
from jobs.facts.job import reused_of
from jobs.facts.providers import answered_sentence, mixed_models, reasons_of
from jobs.store.report.job_providers import JobProviders
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.totals import Totals
from jobs.text.formatting import count, counted, duration, figure, speed
from jobs.tolerance import Tolerance


def end_message(
    job: JobSummary, output: Location | None, tolerance: Tolerance | None, whole: Totals | None, answers: JobProviders
) -> str:
    """The outcome of a job, its speed, where the results are, who answered, and what to look at; `whole`: totals of a
    scoring job."""
    done = f"Job {job.label} is {job.state}: {job.counts_in_words}"
    if not job.kind.has_model:
        return f"{done}."
    took = "" if job.elapsed_s is None else f", in {duration(job.elapsed_s)}"  # None: no worker has started it
    pace = f" ({speed(job.tokens_per_s)})" if job.tokens_per_s else ""
    reused = reused_of(job)  # explains a speed that the model alone does not reach
    reuse = f"; {count(reused.value)} {reused.remark} reused" if reused and reused.value else ""
    where = f"; results in {output}" if output and str(output) != "-" else ""
    more = f"\nWhat went wrong: kvjobs show {job.job_id}" if job.unsuccessful else ""
    if job.rejected and job.rejected == job.unsuccessful:
        more += f" (to accept these lines: kvjobs wait {job.job_id} --max-rejected {job.rejected})"
    if is_tolerated(job, tolerance):
        more = f"\n--max-rejected allows the rejected lines: kvjobs show {job.job_id}"
    more += f"\nWhere the time went: kvjobs steps {job.job_id}"
    is_mixed = mixed_models(job, answers) is not None  # a perplexity over two models means nothing
    total = _perplexity(job, whole) if whole and not is_mixed else ""
    return f"{done}{took}{pace}{reuse}{where}.{_answers(job, answers)}{total}{flags_at_the_end(job)}{more}"


def cancelled_message(job: JobSummary) -> str:
    """The message for a job that was cancelled meanwhile: no file is written, since it would look complete."""
    return (
        f"Job {job.label} is cancelled: {job.counts_in_words}; no results are written."
        f"\nTo continue it: kvjobs retry {job.job_id}"
        f"\nTo export these results: kvjobs export {job.job_id} --only ok -o FILE"
    )


def _answers(job: JobSummary, found: JobProviders) -> str:
    """Who answered, and why others did not; nothing for a job that only onnx may answer."""
    if job.order.is_default:
        return ""
    lines = [answered_sentence(job, found)]
    lines += [why for provider in found.providers for why in reasons_of(provider)]
    if warning := mixed_models(job, found):
        lines.append(warning)
    return "".join(f"\n{line}" for line in lines)


def _perplexity(job: JobSummary, whole: Totals) -> str:
    """The perplexity of the corpus, and how to filter the corpus by it."""
    perplexity, bits_per_byte = whole.measures["perplexity"], whole.measures["bits_per_byte"]
    if perplexity is None:
        return "\nNo token was scored."
    tokens = counted(int(whole.sums["num_tokens"]), "token")
    text = f"\nPerplexity of the corpus: {figure(perplexity)} per token ({tokens})"
    if bits_per_byte is not None:
        text += f", {figure(bits_per_byte)} bits per byte"
    unscored = f"; no token could be scored in {counted(whole.unscored, 'document')}" if whole.unscored else ""
    if job.chain is not None:
        return f"{text}{unscored}."
    lines = f"\nTo keep the better lines: kvjobs export {job.job_id} --where 'perplexity < 50' --format original"
    return f"{text}{unscored}.{lines}"
