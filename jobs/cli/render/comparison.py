"""The page of `kvjobs compare`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jobs.comparison.rankings import RankingAgreement
from jobs.comparison.scores import ScoreShift
from jobs.comparison.words import Piece, around_changes, word_diff
from jobs.text.formatting import NOTHING, count, duration, figure, percent, plain

if TYPE_CHECKING:
    from jobs.comparison.compare import Comparison, Difference
    from jobs.comparison.judged_rankings import ConfidenceInterval

CONTEXT = 30  # characters of the same text that are shown on either side of a change
LONGEST_TEXT = 160  # characters of a source
RANKS_SHOWN = 10


def describe_comparison(found: "Comparison") -> Iterator[str]:
    """The lines of the page."""
    yield f"A is job {found.a.label}, B is job {found.b.label}; both {found.a.task}"
    rows = [
        (contrast.name, plain(contrast.a), plain(contrast.b))
        for contrast in found.contrasts
        if contrast.differs or contrast.name == "model"
    ]
    rows += [
        ("time", duration(found.speed.a_seconds), duration(found.speed.b_seconds)),
        ("tokens/s", figure(found.speed.a_tokens_per_s), figure(found.speed.b_tokens_per_s)),
        *((flag, count(a), count(b)) for flag, a, b in found.flags),
    ]
    yield from _columns(("", "A", "B"), rows)
    yield ""
    yield f"Documents   {found.coverage.sentence}"
    yield f"Results     {found.agreement.sentence}"
    yield f"Speed       {found.speed.sentence}"
    yield from _measures(found)
    if found.speed.phases:
        yield ""
        yield "Seconds by phase (summed over all lanes)"
        phases = [
            (phase.phase, figure(phase.a_seconds), figure(phase.b_seconds), _times(phase.times_as_fast))
            for phase in found.speed.phases
        ]
        yield from _columns(("", "A", "B", "B IS AS FAST"), phases)
    if found.largest:
        yield ""
        yield f"Largest differences{_unit(found)}"
        for difference in found.largest:
            yield from _difference(found, difference)
    if found.notes:
        yield ""
        yield "Note"
        yield from (f"  - {note}" for note in found.notes)


def _measures(found: "Comparison") -> Iterator[str]:
    if found.reference_scores:
        yield ""
        yield f"Against the references of {found.reference_scores[0].documents:,} documents"
        yield from _columns(
            ("", "A", "B", "B - A", "P"),
            [
                (
                    score.measure,
                    figure(score.a),
                    figure(score.b),
                    figure(score.difference, is_signed=True),
                    figure(score.p_value),
                )
                for score in found.reference_scores
            ],
        )
        for score in found.reference_scores:
            yield f"  {score.measure} is {score.signature}"
        tested = found.reference_scores[0].tested
        if tested:
            yield f"  P: paired bootstrap, 1,000 resamples of {tested:,} documents"
    if found.judged:
        yield ""
        first = found.judged[0]
        ranked = f"{first.queries:,} of {first.judged_queries:,}"
        yield f"Over {ranked} judged queries, which both ranked (95 % confidence intervals)"
        rows = [
            (measure.measure, _interval(measure.a), _interval(measure.b), _interval(measure.difference, is_signed=True))
            for measure in found.judged
        ]
        yield from _columns(("", "A", "B", "B - A"), rows)


def _difference(found: "Comparison", difference: "Difference") -> Iterator[str]:
    name = difference.id if difference.id is not None else f"position {difference.a_position}"
    text = _short(difference.text or "")
    if isinstance(found.agreement, ScoreShift):
        values = f"A {figure(difference.a)}, B {figure(difference.b)}"
        yield f"  {name}  {figure(difference.value, is_signed=True)}  {values}"
        yield f"    {text}"
        return
    if isinstance(found.agreement, RankingAgreement):
        yield f"  {name}  RBO {figure(1 - difference.value)}"
        for side, order in (("A", difference.a), ("B", difference.b)):
            yield f"    {side}  {' '.join(order[:RANKS_SHOWN])}{' …' if order[RANKS_SHOWN:] else ''}"
        return
    yield f"  {name}  {percent(difference.value)} of the words differ"
    yield f"    text  {text}"
    for side, pieces, signs in zip(
        "AB", word_diff(difference.a, difference.b), (("[-", "-]"), ("{+", "+}")), strict=True
    ):
        yield f"    {side}     {_marked(pieces, signs)}"


def _marked(pieces: Sequence[Piece], signs: tuple[str, str]) -> str:
    """The changed parts in signs, as `git diff --word-diff` has them, and `CONTEXT` characters beside them."""
    return "".join(
        f"{signs[0]}{piece.text}{signs[1]}" if piece.is_changed else piece.text
        for piece in around_changes(pieces, CONTEXT)
    )


def _unit(found: "Comparison") -> str:
    return f", in {found.agreement.unit}" if isinstance(found.agreement, ScoreShift) else ""


def _columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table without borders, its first column aligned to the left, the others to the right."""
    widths = [max(len(row[at]) for row in (heads, *rows)) for at in range(len(heads))]
    for row in (heads, *rows):
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  " + "  ".join([row[0].ljust(widths[0]), *cells]).rstrip()


def _times(times_as_fast: float | None) -> str:
    return NOTHING if times_as_fast is None else f"{figure(times_as_fast)} x"


def _interval(interval: "ConfidenceInterval", *, is_signed: bool = False) -> str:
    mean, low, high = (figure(value, is_signed=is_signed) for value in (interval.mean, interval.low, interval.high))
    return mean if interval.low is None else f"{mean} ({low} to {high})"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST_TEXT else f"{flat[:LONGEST_TEXT]}…"
