"""Length against latency: what a document costs that has many tokens, batch by batch."""

from collections.abc import Sequence

from jobs.store.report.timings.recent_batches import BatchSummary
from jobs.text.formatting import count, figure
from jobs.web.charts import Chart, Series

MOST_POINTS = 300  # batches
FEWEST = 4  # batches, of which two halves can be compared


def latency_chart(batches: Sequence[BatchSummary]) -> Chart:
    """A point for each of the newest batches: mean tokens of a document, and mean seconds."""
    known = [batch for batch in batches if batch.busy_s > 0 and batch.documents and batch.tokens]
    timed = sorted(known[-MOST_POINTS:], key=_tokens_each)
    return Chart(
        id="latency-chart",
        title="Length against latency",
        sentence=_sentence(timed),
        shape="scatter",
        x_name="tokens of a document, mean of its batch",
        y_name="ms a document",
        x=[round(_tokens_each(batch), 1) for batch in timed],
        series=[Series("a batch", [round(_ms_each(timed[at : at + 1]), 3) for at in range(len(timed))], "--series-6")]
        if timed
        else [],
    )


def _sentence(batches: Sequence[BatchSummary]) -> str:
    if not batches:
        return "No batch with durations was recorded."
    whole = _ms_each(batches)
    number = f"{count(len(batches))} {'batch' if len(batches) == 1 else 'batches'}"
    number = f"the newest {number}" if len(batches) == MOST_POINTS else number
    if len(batches) < FEWEST:
        return f"A document takes {figure(whole)} ms in {number}; too few to compare short ones with long ones."
    half = len(batches) // 2
    short, long = batches[:half], batches[half:]
    times_tokens, times_ms = _mean_tokens(long) / _mean_tokens(short), _ms_each(long) / _ms_each(short)
    costs = (
        "less than in proportion"
        if times_ms < 0.8 * times_tokens
        else "more than in proportion"
        if times_ms > 1.25 * times_tokens
        else "in proportion"
    )
    return (
        f"In {number} a document of {figure(_mean_tokens(short))} tokens takes {figure(_ms_each(short))} ms and one of "
        f"{figure(_mean_tokens(long))} tokens {figure(_ms_each(long))} ms: time grows {costs} to length."
    )


def _tokens_each(batch: BatchSummary) -> float:
    return batch.tokens / batch.documents


def _mean_tokens(batches: Sequence[BatchSummary]) -> float:
    return sum(batch.tokens for batch in batches) / sum(batch.documents for batch in batches)


def _ms_each(batches: Sequence[BatchSummary]) -> float:
    return 1000 * sum(batch.busy_s for batch in batches) / sum(batch.documents for batch in batches)
