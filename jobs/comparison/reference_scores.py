"""
Translations of two jobs against reference translations: chrF and BLEU by sacrebleu, and whether they differ.

The scores are of all documents: sufficient statistics (counts of n-grams) are summed document by document, as sacrebleu
does for a corpus. The test is sacrebleu's paired bootstrap (Koehn 2004), 1,000 resamples, of at most TESTED documents,
drawn at random from a fixed seed, since it holds all resamples in memory.
"""

import random
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.errors import SpecError
from jobs.system.requirements import install_command

TESTED = 2000  # documents; the test sets of WMT have some 2,000
LEAST_TESTED = 2
SEED = 12345
TOKENIZERS_FROM = 100  # references, from whose script BLEU's tokenizer follows


@dataclass(frozen=True, slots=True)
class ReferenceScore:
    """One measure of both jobs, 0 .. 100, higher is better."""

    measure: str  # chrF2 or BLEU
    documents: int
    a: float
    b: float
    signature: str  # sacrebleu's: with it the number can be computed again
    p_value: float | None  # of the paired bootstrap; None where none was asked for
    tested: int  # documents that the test used

    @property
    def difference(self) -> float:
        return self.b - self.a

    @property
    def is_significant(self) -> bool:
        return self.p_value is not None and self.p_value < 0.05


class ReferenceScores:
    """Collects translations of both jobs with their references."""

    def __init__(self, with_test: bool = True) -> None:
        _sacrebleu()  # missing: say so before a million documents are read
        self._with_test = with_test
        self._waiting: list[tuple[str, str, str]] = []
        self._metrics: dict[str, Any] = {}
        self._sums: dict[str, tuple[list[float], list[float]]] = {}
        self._sample: list[tuple[str, str, str]] = []
        self._random = random.Random(SEED)
        self._count = 0

    def add(self, a: str, b: str, reference: str) -> None:
        self._count += 1
        texts = (a, b, reference)
        if len(self._sample) < TESTED:
            self._sample.append(texts)
        elif (index := self._random.randrange(self._count)) < TESTED:  # a reservoir: each document is as likely
            self._sample[index] = texts
        self._waiting.append(texts)
        if len(self._waiting) >= TOKENIZERS_FROM:
            self._sum_up()

    def result(self) -> list[ReferenceScore]:
        """chrF2 and BLEU. Raises SpecError where no document has a reference."""
        if not self._count:
            raise SpecError("no document that both jobs translated has a reference")
        self._sum_up()
        p_values = self._test() if self._with_test and len(self._sample) >= LEAST_TESTED else {}
        return [
            ReferenceScore(
                measure=name,
                documents=self._count,
                a=float(metric._compute_score_from_stats(self._sums[name][0]).score),
                b=float(metric._compute_score_from_stats(self._sums[name][1]).score),
                signature=str(metric.get_signature()),
                p_value=p_values.get(name),
                tested=len(self._sample) if p_values else 0,
            )
            for name, metric in self._metrics.items()
        ]

    def _sum_up(self) -> None:
        """Add the statistics of the documents that wait."""
        if not self._waiting:
            return
        a, b, references = zip(*self._waiting, strict=True)
        self._waiting = []
        if not self._metrics:
            sacrebleu = _sacrebleu()
            self._metrics = {"chrF2": sacrebleu.CHRF(), "BLEU": sacrebleu.BLEU(tokenize=tokenizer_for(references))}
        for name, metric in self._metrics.items():
            # The method that sacrebleu's own significance tests begin with; it gives a row of counts per document.
            rows = (metric._extract_corpus_statistics(texts, [references]) for texts in (a, b))
            of_a, of_b = ([sum(column) for column in zip(*found, strict=True)] for found in rows)
            known = self._sums.get(name)
            self._sums[name] = (_plus(known[0], of_a), _plus(known[1], of_b)) if known else (of_a, of_b)

    def _test(self) -> dict[str, float]:
        from sacrebleu.significance import PairedTest

        a, b, references = zip(*self._sample, strict=True)
        test = PairedTest([("A", a), ("B", b)], self._metrics, [references], test_type="bs", n_samples=1000)
        _, found = test()
        return {name: _p_value(*found[name]) for name in self._metrics}


def tokenizer_for(references: Sequence[str]) -> str:
    """sacrebleu's tokenizer for BLEU by the script of the references: `zh` for Chinese, `char` for Japanese, Thai and
    other scripts without spaces, else `13a`, the default."""
    scripts = list(_scripts("".join(references[:TOKENIZERS_FROM])))
    if not scripts:
        return "13a"
    kana, han, others = (scripts.count(name) / len(scripts) for name in ("kana", "han", "unspaced"))
    if kana > 0.05 or others > 0.3:
        return "char"
    return "zh" if han > 0.3 else "13a"


def _scripts(text: str) -> Iterator[str]:
    """The writing system of each letter, by which the tokenizer is chosen."""
    for character in text:
        if character.isalpha():
            name = unicodedata.name(character, "")
            if name.startswith("CJK"):
                yield "han"
            elif name.startswith(("HIRAGANA", "KATAKANA")):
                yield "kana"
            else:
                yield "unspaced" if name.startswith(("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")) else "letter"


def _p_value(a: Any, b: Any) -> float:
    """Of sacrebleu's results for both jobs. For equal scores its test says 1 / 1,001, since no resample differs by more
    than they do."""
    return 1.0 if a.score == b.score else float(b.p_value)


def _plus(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [number + other for number, other in zip(first, second, strict=True)]


def _sacrebleu() -> Any:
    try:
        import sacrebleu
    except ImportError:
        raise SpecError(
            "chrF and BLEU are computed with the package sacrebleu, which is not installed: "
            + install_command("sacrebleu")
        ) from None
    return sacrebleu
