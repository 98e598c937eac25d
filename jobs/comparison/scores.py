"""How the scores of two jobs differ: per token where both cut each text into as many tokens, else per byte.

Two models with different vocabularies cut a text into different tokens. A token then stands for more text in one than
in the other, so perplexities per token say nothing about which model predicts better; bits per byte do, since the bytes
are the same (lm-evaluation-harness' `bits_per_byte`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs import measures
from jobs.comparison.bins import Bin, even_bins
from jobs.comparison.quantiles import Sketch
from jobs.text.formatting import count, counted, figure, percent

PER_TOKEN, PER_BYTE = "nats per token", "bits per byte"
NORMAL_95 = 1.96  # standard errors on either side of a mean: 95 % of a normal distribution
QUANTILES = {"p5": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95}


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of one job over the documents that both jobs scored."""

    nll_sum: float = 0.0
    num_tokens: int = 0
    num_bytes: int = 0

    @property
    def perplexity(self) -> float | None:
        return measures.perplexity(self.nll_sum, self.num_tokens)

    @property
    def bits_per_byte(self) -> float | None:
        return measures.bits_per_byte(self.nll_sum, self.num_bytes)

    def as_row(self) -> dict[str, float | int | None]:
        """The sums and the measures computed from them, for JSON."""
        return {
            "nll_sum": self.nll_sum,
            "num_tokens": self.num_tokens,
            "num_bytes": self.num_bytes,
            "perplexity": self.perplexity,
            "bits_per_byte": self.bits_per_byte,
        }


@dataclass(frozen=True, slots=True)
class ScoreShift:
    """The documents that both jobs scored. A difference is B minus A: above 0 where B predicts the text less well."""

    unit: str  # PER_TOKEN or PER_BYTE
    documents: int  # with a scored token in both
    unscored: int  # with a result in both, but without a scored token in one
    same_tokens: int  # documents that both jobs cut into as many scored tokens
    same_bytes: int  # documents of which both jobs scored the same number of bytes
    identical: int  # documents whose difference is exactly 0
    lower: int  # documents that B predicts better
    higher: int  # documents that B predicts less well
    a: Sums
    b: Sums
    mean: float | None  # of the differences of the documents
    confidence: tuple[float, float] | None  # 95 % interval of that mean (normal, paired: Miller 2024, arXiv 2411.00640)
    least: float | None
    greatest: float | None
    quantiles: dict[str, float | None]  # of the differences
    histogram: Sequence[Bin]

    @property
    def is_per_token(self) -> bool:
        return self.unit == PER_TOKEN

    @property
    def sentence(self) -> str:
        if self.mean is None:
            return "No document was scored in both jobs."
        if self.identical == self.documents:
            return f"None of {counted(self.documents, 'score')} differs."
        better = percent(self.lower / self.documents)
        worse = percent(self.higher / self.documents)
        interval = (
            f" (95 % confidence interval {_signed(self.confidence[0])} to {_signed(self.confidence[1])})"
            if self.confidence
            else ""
        )
        return (
            f"B minus A is {_signed(self.mean)} {self.unit} on average over {counted(self.documents, 'document')}"
            f"{interval}, {_signed(self.quantiles['median'])} in the median; B is lower in {better} of them and higher "
            f"in {worse}. {self.of_the_corpus}"
        )

    @property
    def of_the_corpus(self) -> str:
        """`Perplexity of these documents together: A 21.4, B 20.9 (-2.34 %).`"""
        a, b = (
            (self.a.perplexity, self.b.perplexity)
            if self.is_per_token
            else (self.a.bits_per_byte, self.b.bits_per_byte)
        )
        name = "Perplexity" if self.is_per_token else "Bits per byte"
        change = f" ({_signed(100 * (b / a - 1))} %)" if a and b is not None else ""
        return f"{name} of these documents together: A {figure(a)}, B {figure(b)}{change}."

    @property
    def caution(self) -> str | None:
        """What keeps the scores from being compared per token, in a sentence."""
        if self.is_per_token or not self.documents:
            return None
        other = count(self.documents - self.same_tokens)
        return (
            f"B has another number of scored tokens than A in {other} of {counted(self.documents, 'document')}: the "
            "jobs cut texts differently (another vocabulary, or other options), so perplexity per token cannot be "
            "compared, and bits per byte are."
        )


class ScoresCompared:
    """Collects pairs of scores, one document after the other."""

    def __init__(self) -> None:
        self._sums = [[0.0, 0, 0], [0.0, 0, 0]]
        self._per_token = Sketch()
        self._per_byte = Sketch()
        self._unscored = self._same_tokens = self._same_bytes = 0

    def add(self, a: Sequence[float], b: Sequence[float]) -> tuple[float, float] | None:
        """Count a document, given nll_sum, num_tokens and num_bytes of both. Return the difference per token and per
        byte; None where one has no scored token."""
        if not (a[1] and b[1] and a[2] and b[2]):
            self._unscored += 1
            return None
        for sums, values in zip(self._sums, (a, b), strict=True):
            for at, value in enumerate(values):
                sums[at] += value
        per_token = b[0] / b[1] - a[0] / a[1]
        per_byte = (b[0] / b[2] - a[0] / a[2]) / measures.LN_2
        self._per_token.add(per_token)
        self._per_byte.add(per_byte)
        self._same_tokens += a[1] == b[1]
        self._same_bytes += a[2] == b[2]
        return per_token, per_byte

    @property
    def is_per_token(self) -> bool:
        """Whether the jobs may be compared per token: both cut each text into the same number of tokens."""
        return self._same_tokens == self._per_token.count

    def result(self) -> ScoreShift:
        shift = self._per_token if self.is_per_token else self._per_byte
        error = shift.standard_error
        mean = shift.mean
        a, b = (Sums(float(sums[0]), int(sums[1]), int(sums[2])) for sums in self._sums)
        return ScoreShift(
            unit=PER_TOKEN if self.is_per_token else PER_BYTE,
            documents=shift.count,
            unscored=self._unscored,
            same_tokens=self._same_tokens,
            same_bytes=self._same_bytes,
            identical=shift.num_zeros,
            lower=shift.num_below,
            higher=shift.num_above,
            a=a,
            b=b,
            mean=mean,
            confidence=None if mean is None or error is None else (mean - NORMAL_95 * error, mean + NORMAL_95 * error),
            least=shift.least if shift.count else None,
            greatest=shift.greatest if shift.count else None,
            quantiles={name: shift.quantile(share) for name, share in QUANTILES.items()},
            histogram=even_bins(shift),
        )


def _signed(value: float | None) -> str:
    return figure(value, is_signed=True)
