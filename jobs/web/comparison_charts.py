"""The charts of the page that compares two jobs."""

from collections.abc import Sequence

from jobs.comparison.bins import Bin
from jobs.comparison.compare import Comparison
from jobs.comparison.rankings import RankingAgreement
from jobs.comparison.scores import ScoreShift
from jobs.comparison.speed import Speed
from jobs.comparison.translations import TranslationAgreement
from jobs.text.formatting import count, figure, percent
from jobs.web.charts import Chart, Series

OF_A, OF_B = "--series-1", "--series-2"  # colours of the jobs, in charts and beside their names
SAME, LOWER, HIGHER = "--line-strong", "--series-5", "--series-4"


def distribution_chart(found: Comparison) -> Chart:
    """A histogram of how much the results of the documents differ."""
    agreement = found.agreement
    if isinstance(agreement, ScoreShift):
        return _score_chart(agreement)
    if isinstance(agreement, RankingAgreement):
        return _ranking_chart(agreement)
    return _translation_chart(agreement)


def seconds_chart(speed: Speed) -> Chart:
    """The phases of both jobs beside each other."""
    phases = speed.phases
    return Chart(
        id="seconds",
        title="Seconds by phase",
        sentence=speed.sentence if phases else "There are no timings: the jobs were submitted with --timing off.",
        shape="bar",
        x_name="phase",
        y_name="s, summed over lanes",
        x=[phase.phase for phase in phases],
        series=[
            Series("A", [_rounded(phase.a_seconds) for phase in phases], OF_A),
            Series("B", [_rounded(phase.b_seconds) for phase in phases], OF_B),
        ],
    )


def _translation_chart(agreement: TranslationAgreement) -> Chart:
    bins = agreement.histogram
    median, p90 = agreement.quantiles["median"], agreement.quantiles["p90"]
    sentence = "There is nothing to compare."
    if median is not None and p90 is not None:
        sentence = (
            f"{count(agreement.same_words)} of {count(agreement.documents)} have the same words. In half of the "
            f"documents at most {percent(median)} of the words differ, in nine of ten at most {percent(p90)}."
        )
    return Chart(
        id="distribution",
        title="Documents by the share of words that differ",
        sentence=sentence,
        shape="bar",
        x_name="words that differ",
        y_name="documents",
        x=["none" if bin_.start == bin_.stop else f"to {bin_.stop * 100:g} %" for bin_ in bins],
        series=[Series("documents", [bin_.documents for bin_ in bins], "--series-3")],
        num_marked=None,
    )


def _ranking_chart(agreement: RankingAgreement) -> Chart:
    bins = _ends_trimmed(agreement.histogram)
    median, p5 = agreement.quantiles["median"], agreement.quantiles["p5"]
    sentence = "There is nothing to compare."
    if median is not None and p5 is not None:
        sentence = (
            f"1 is the same order, 0 nothing in common. The median is {figure(median)}; one query in twenty is below "
            f"{figure(p5)}."
        )
    return Chart(
        id="distribution",
        title="Queries by rank-biased overlap",
        sentence=sentence,
        shape="bar",
        x_name="RBO (p = 0.9)",
        y_name="queries",
        x=["1" if bin_.start > 0.99 else f"to {bin_.stop:.1f}" for bin_ in bins],
        series=[Series("queries", [bin_.documents for bin_ in bins], "--series-3")],
    )


def _score_chart(shift: ScoreShift) -> Chart:
    """Bars left of zero are documents that B predicts better; those without a difference have a colour of their own."""
    bins = shift.histogram
    zero = next((at for at, bin_ in enumerate(bins) if bin_.stop == 0 or bin_.start == bin_.stop == 0), None)
    same = [shift.identical if at == zero else None for at in range(len(bins))]
    return Chart(
        id="distribution",
        title=f"Documents by their difference in {shift.unit}",
        sentence=_shift_sentence(shift),
        shape="stack",
        x_name=f"B - A, {shift.unit}, up to",
        y_name="documents",
        x=[f"{bin_.stop:.6g}" for bin_ in bins],
        series=[
            Series(
                "B lower", [_lower(bin_, shift.identical if at == zero else 0) for at, bin_ in enumerate(bins)], LOWER
            ),
            Series("the same", same, SAME),
            Series("B higher", [bin_.documents if bin_.stop > 0 else None for bin_ in bins], HIGHER),
        ],
    )


def _shift_sentence(shift: ScoreShift) -> str:
    low, high = shift.quantiles["p5"], shift.quantiles["p95"]
    if low is None or high is None:
        return "There is nothing to compare."
    ends = " and ".join(figure(end, is_signed=True) for end in (low, high))
    return (
        f"Nine of ten documents lie between {ends}; B predicts {count(shift.lower)} better and "
        f"{count(shift.higher)} less well than A."
    )


def _lower(bin_: Bin, same: int) -> int | None:
    return bin_.documents - same if bin_.stop <= 0 else None


def _ends_trimmed(bins: Sequence[Bin]) -> Sequence[Bin]:
    """The bins from the first that holds a document on."""
    first = next((at for at, bin_ in enumerate(bins) if bin_.documents), 0)
    return bins[first:]


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
