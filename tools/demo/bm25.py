"""BM25: the first stage of the example retrieval set. It compares words and knows no synonyms.

Knows: words of ASCII letters and digits. Does not know: what a document is about, files.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping

K1 = 1.2  # saturation of term frequency
B = 0.75  # length normalization

_TERM = re.compile(r"[a-z0-9]+")


class Bm25:
    """An index of documents by id.

    Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009): for each term of the query,
    tf (K1 + 1) / (tf + K1 (1 - B + B length / mean length)), times the Robertson-Sparck Jones weight without relevance
    information, log((N - n + 0.5) / (n + 0.5)) where n of N documents have the term. 1 is added inside the logarithm,
    so that a term of more than half of the documents has no negative weight.
    """

    def __init__(self, documents: Mapping[str, str]) -> None:
        self._counts = {number: Counter(_terms(text)) for number, text in documents.items()}
        self._lengths = {number: counts.total() for number, counts in self._counts.items()}
        self._mean_length = sum(self._lengths.values()) / len(self._lengths)
        self._frequencies = Counter(term for counts in self._counts.values() for term in counts)  # of documents

    def best(self, query: str, count: int) -> list[tuple[str, float]]:
        """(id, score) of the best documents, best first, ties by id. Scores have 4 digits, as in a run file."""
        terms = _terms(query)
        scores = {number: round(sum(self._weight(term, number) for term in terms), 4) for number in self._counts}
        return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:count]

    def _weight(self, term: str, number: str) -> float:
        occurrences = self._counts[number][term]
        if not occurrences:
            return 0.0
        frequency = self._frequencies[term]
        rarity = math.log(1 + (len(self._counts) - frequency + 0.5) / (frequency + 0.5))
        length = 1 - B + B * self._lengths[number] / self._mean_length
        return rarity * occurrences * (K1 + 1) / (occurrences + K1 * length)


def _terms(text: str) -> list[str]:
    return _TERM.findall(text.lower())
