"""The histogram of perplexity, and how many documents a threshold lets pass.

The histogram is counted in buckets, so a threshold at the end of a bucket has an exact count; within a bucket the count
is between two numbers, and both are said.
"""

import bisect
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobs.store.report.timings.histograms import Bucket
from jobs.tasks.kinds import KINDS
from jobs.text.formatting import count, counted, percent
from jobs.web.charts import Chart, Series

SAME = 1e-5  # relative: a threshold that is written with 6 digits is the end of its bucket
USUAL_SHARE = 0.9  # of the documents pass at the threshold that is shown first


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A perplexity below which documents are kept."""

    value: float
    written: str  # as it stands in the command
    at_least: int  # documents that pass
    at_most: int
    total: int
    num_buckets: int  # wholly below it
    command: str

    @property
    def sentence(self) -> str:
        """How many documents pass."""
        if self.at_least == self.at_most:
            share = percent(self.at_least / self.total) if self.total else percent(0)
            return f"{count(self.at_least)} of {counted(self.total, 'document')} ({share}) are below {self.written}."
        return (
            f"Between {count(self.at_least)} and {count(self.at_most)} of {counted(self.total, 'document')} are below "
            f"{self.written}; at the end of a bar the count is exact."
        )


def perplexity_chart(buckets: Sequence[Bucket], task: str, threshold: Threshold | None) -> Chart:
    """A bar for each bucket; those below the threshold are in colour."""
    return Chart(
        id="perplexity-chart",
        title="Documents by perplexity",
        sentence=_sentence(buckets, task),
        shape="bar",
        x_name="perplexity, from",
        y_name="documents",
        x=[written(bucket.start, 3) for bucket in buckets],
        series=[Series("documents", [bucket.documents for bucket in buckets], "--series-1")] if buckets else [],
        num_marked=threshold.num_buckets if threshold else None,
    )


def threshold_of(job_id: int, task: str, buckets: Sequence[Bucket], value: float | None) -> Threshold | None:
    """The threshold at `value`; without one, at the end of the bucket up to which most documents are. None where there
    is no histogram."""
    if not buckets:
        return None
    total = sum(bucket.documents for bucket in buckets)
    stops = [bucket.stop for bucket in buckets]
    if value is None:
        value = _quantile(buckets, USUAL_SHARE)
    at_least, at_most = _below(buckets, value)
    text = written(value, 6)
    return Threshold(
        value=value,
        written=text,
        at_least=at_least,
        at_most=at_most,
        total=total,
        num_buckets=bisect.bisect_right(stops, value * (1 + SAME)),
        command=export_command(job_id, task, text),
    )


def threshold_data(job_id: int, task: str, buckets: Sequence[Bucket]) -> dict[str, Any]:
    """What `static/job.js` needs to move the threshold. The last bucket there can be has no end, so None stands there,
    and a threshold is never behind it."""
    return {
        "job": job_id,
        "task": task,
        "starts": [bucket.start for bucket in buckets],
        "stops": [bucket.stop if math.isfinite(bucket.stop) else None for bucket in buckets],
        "documents": [bucket.documents for bucket in buckets],
    }


def export_command(job_id: int, task: str, threshold: str) -> str:
    """The command that writes the lines of the documents which pass."""
    mean = KINDS[task].mean
    assert mean is not None, "else the page has no perplexities"
    condition = (
        f"perplexity < {threshold}"
        if mean.is_cost
        else f"{mean.total} > {-math.log(float(threshold)):.6g} * {mean.count}"
    )
    return f"kvjobs export {job_id} --where {shlex.quote(condition)} --format original"


def written(value: float, digits: int) -> str:
    """A number with so many significant digits and no exponent."""
    return f"{float(f'{value:.{digits}g}'):f}".rstrip("0").rstrip(".")


def _below(buckets: Sequence[Bucket], value: float) -> tuple[int, int]:
    """The least and the largest number of documents that may be below a value."""
    at_least = sum(bucket.documents for bucket in buckets if bucket.stop <= value * (1 + SAME))
    at_most = sum(bucket.documents for bucket in buckets if bucket.start < value * (1 - SAME))
    return at_least, max(at_least, at_most)


def _sentence(buckets: Sequence[Bucket], task: str) -> str:
    kind = KINDS[task]
    if kind.mean is None:
        return f"A {kind.main} has no perplexity." if kind.has_model else f"A {kind.name} computes no perplexity."
    if not buckets:
        return "No document with a perplexity was recorded yet."
    total = sum(bucket.documents for bucket in buckets)
    middle, high = _quantile(buckets, 0.5), _quantile(buckets, 0.95)
    of_what = f"of the {kind.mean.of} under the model"
    return (
        f"Perplexity {of_what}: half of {counted(total, 'document')} are below {written(middle, 3)}, 95 % below "
        f"{written(high, 3)} (each to the end of its bar)."
    )


def _quantile(buckets: Sequence[Bucket], share: float) -> float:
    """The end of the bucket in which the share is reached; its start where it has no end."""
    total, seen = sum(bucket.documents for bucket in buckets), 0
    for bucket in buckets:
        seen += bucket.documents
        if seen >= share * total:
            return bucket.stop if math.isfinite(bucket.stop) else bucket.start
    return buckets[-1].start
