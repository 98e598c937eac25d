"""
Which tokens of a sentence of the grammar those of its translation come from, for guided alignment.

Knows: the grammar's own alignment of words, where tokens stand. Does not know: ids, training.
"""

from collections.abc import Sequence

from tools.demo.word_links import LinkedPair
from worker.engine.tasks.attention_links import words_covered
from worker.text.word_alignment import words

Span = tuple[int, int] | None


def token_links(pair: LinkedPair, source: Sequence[Span], target: Sequence[Span]) -> list[list[int]]:
    """For each token of the Chinese, and its end, the tokens of the English that it comes from: those of the words that
    its words may be linked to, and the end for the end. A token without such a word has none. Spans are start and stop
    in characters."""
    source_words = words_covered(source, words(pair.english))
    target_words = words_covered(target, words(pair.chinese))
    found = []
    for own in target_words:
        linked = {i for i, j in pair.possible if j in own}
        found.append([token for token, of in enumerate(source_words) if not linked.isdisjoint(of)])
    return [*found, [len(source)]]
