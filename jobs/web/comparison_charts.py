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
    """How many documents differ how much."""
    agreement = found.agreement
    if isinstance(agreement, ScoreShift):
        return _of_scores(agreement)
    if isinstance(agreement, RankingAgreement):
        return _of_rankings(agreement)
    return _of_translations(agreement)


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
        x=[one.phase for one in phases],
        series=[
            Series("A", [_rounded(one.a_seconds) for one in phases], OF_A),
            Series("B", [_rounded(one.b_seconds) for one in phases], OF_B),
        ],
    )


def _of_translations(agreement: TranslationAgreement) -> Chart:
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
        x=["none" if one.start == one.stop else f"to {one.stop * 100:g} %" for one in bins],
        series=[Series("documents", [one.documents for one in bins], "--series-3")],
        num_marked=None,
    )


def _of_rankings(agreement: RankingAgreement) -> Chart:
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
        x=["1" if one.start > 0.99 else f"to {one.stop:.1f}" for one in bins],
        series=[Series("queries", [one.documents for one in bins], "--series-3")],
    )


def _of_scores(shift: ScoreShift) -> Chart:
    """Bars left of zero are documents that B predicts better; those without a difference have a colour of their own."""
    bins = shift.histogram
    zero = next((at for at, one in enumerate(bins) if one.stop == 0 or one.start == one.stop == 0), None)
    same = [shift.identical if at == zero else None for at in range(len(bins))]
    return Chart(
        id="distribution",
        title=f"Documents by their difference in {shift.unit}",
        sentence=_of_shift(shift),
        shape="stack",
        x_name=f"B - A, {shift.unit}, up to",
        y_name="documents",
        x=[f"{one.stop:.6g}" for one in bins],
        series=[
            Series(
                "B lower", [_lower(one, shift.identical if at == zero else 0) for at, one in enumerate(bins)], LOWER
            ),
            Series("the same", same, SAME),
            Series("B higher", [one.documents if one.stop > 0 else None for one in bins], HIGHER),
        ],
    )


def _of_shift(shift: ScoreShift) -> str:
    low, high = shift.quantiles["p5"], shift.quantiles["p95"]
    if low is None or high is None:
        return "There is nothing to compare."
    ends = " and ".join(figure(end, is_signed=True) for end in (low, high))
    return (
        f"Nine of ten documents lie between {ends}; B predicts {count(shift.lower)} better and "
        f"{count(shift.higher)} less well than A."
    )


def _lower(one: Bin, same: int) -> int | None:
    return one.documents - same if one.stop <= 0 else None


def _ends_trimmed(bins: Sequence[Bin]) -> Sequence[Bin]:
    """Without the empty bins before the first document."""
    first = next((at for at, one in enumerate(bins) if one.documents), 0)
    return bins[first:]


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
