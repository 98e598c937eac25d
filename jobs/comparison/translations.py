"""How far the translations of two jobs agree."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.comparison.bins import Bin, FixedBins
from jobs.comparison.quantiles import Sketch
from jobs.comparison.words import changed_share
from jobs.text.formatting import count, counted, figure, percent

BORDERS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)  # of the histogram: shares of changed words


@dataclass(frozen=True, slots=True)
class TranslationAgreement:
    """The documents that both jobs translated."""

    documents: int
    identical: int  # the same text, to the byte
    same_words: int  # identical, or different in white space alone
    mean_changed: float | None  # share of changed words (`words.changed_share`), over all documents
    mean_changed_if_different: float | None  # the same over those whose words differ
    quantiles: dict[str, float | None]  # of the share of changed words, over all documents
    length_ratio: float | None  # characters of B / of A: far from 1 where a job leaves text out or repeats it
    histogram: Sequence[Bin]

    @property
    def share_identical(self) -> float | None:
        return self.identical / self.documents if self.documents else None

    @property
    def sentence(self) -> str:
        if not self.documents:
            return "No document was translated in both jobs."
        all_of = counted(self.documents, "translation")
        if self.identical == self.documents:
            return f"None of {all_of} differs, not even by a byte."
        same = percent(self.identical / self.documents)
        sentence = f"{count(self.identical)} of {all_of} are the same ({same})"
        if self.mean_changed_if_different is None:
            return f"{sentence}; the others differ in white space alone."
        return (
            f"{sentence}; in those with other words, {percent(self.mean_changed_if_different)} of the words differ on "
            f"average. B has {figure(self.length_ratio)} times the characters of A."
        )


class TranslationsCompared:
    """Collects pairs of translations, one document after the other."""

    largest_first = "changed"  # what the largest differences are ordered by

    def __init__(self) -> None:
        self._identical = 0
        self._changed = Sketch()
        self._different = Sketch()
        self._bins = FixedBins(BORDERS)
        self._characters = [0, 0]

    def add(self, a: str, b: str) -> float:
        """Count a document; return the share of words that differ, by which differences are ordered."""
        self._identical += a == b
        self._characters[0] += len(a)
        self._characters[1] += len(b)
        changed = changed_share(a, b)
        self._changed.add(changed)
        self._bins.add(changed)
        if changed:
            self._different.add(changed)
        return changed

    def result(self) -> TranslationAgreement:
        changed = self._changed
        return TranslationAgreement(
            documents=changed.count,
            identical=self._identical,
            same_words=changed.num_zeros,
            mean_changed=changed.mean,
            mean_changed_if_different=self._different.mean,
            quantiles={name: changed.quantile(share) for name, share in QUANTILES.items()},
            length_ratio=self._characters[1] / self._characters[0] if self._characters[0] else None,
            histogram=self._bins.bins(),
        )


QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
