"""
From weights of attention to weights and links between words.

Knows: which words a token covers, weights. Does not know: models, how tokens are cut.

Shapes: T tokens of the target · S tokens of the source · J words of the target · I words of the source.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Link = tuple[int, int]  # a word of the source, one of the target
Weights = NDArray[np.float64]
Covered = Sequence[Sequence[int]]  # for each token, the words that it is a part of, or that are parts of it

# Chosen on sentences of the bundled model's grammar (docs/experiments.md).
_OF_THE_TOKEN_BEFORE, _LINKED = 0.4, 0.4
_LEAST = 1e-9  # so that no sum is 0


def words_covered(tokens: Sequence[tuple[int, int] | None], words: Sequence[tuple[int, int]]) -> list[range]:
    """The words that each token overlaps. A token without characters, one of several that make up a character, counts
    as the character behind it. Spans are start and stop in characters, in order; None: no part of the text."""
    starts, stops = [start for start, _stop in words], [stop for _start, stop in words]
    found = []
    for span in tokens:
        if span is None:
            found.append(range(0))
        else:
            start, stop = span[0], max(span[1], span[0] + 1)
            first = bisect_right(stops, start)
            found.append(range(first, max(first, bisect_left(starts, stop))))
    return found


def word_weights(
    weights: NDArray[Any],
    source: Covered,
    target: Covered,
    num_source: int,
    num_target: int,
    *,
    of_head: bool = False,
) -> Weights:
    """How much of each target word comes from each source word: (J, I), rows that sum to 1, or 0 where a word has no
    token. weights (T, S), of the tokens whose words are `target` and `source`; only tokens of words take part.

    A target token comes from the source tokens that it attends to and that attend to it, each as a share of what they
    attend to: the product of the two shares, squared, so that many small weights do not outweigh a clear one. Since a
    token in the middle of a word attends to what comes next, each takes a part of what the token before it has.
    `of_head`: the weights are those of a head that aligns words, which needs neither.
    """
    rows, columns = (np.array([index for index, words in enumerate(side) if words], int) for side in (target, source))
    found = np.zeros((num_target, num_source))
    if not (len(rows) and len(columns)):
        return found
    weights = weights[np.ix_(rows, columns)].astype(np.float64) + _LEAST
    agreed = weights * weights / weights.sum(0)
    if not of_head:
        agreed **= 2
    agreed /= agreed.sum(1, keepdims=True)
    if not of_head:
        agreed[1:] = agreed[1:] + _OF_THE_TOKEN_BEFORE * agreed[:-1]
    by_source, by_target = np.zeros((len(columns), num_source)), np.zeros((num_target, len(rows)))
    for at, column in enumerate(columns.tolist()):
        by_source[at, source[column]] = 1 / len(source[column])
    for at, row in enumerate(rows.tolist()):
        by_target[target[row], at] = 1
    found += by_target @ agreed @ by_source
    found /= np.maximum(found.sum(1, keepdims=True), _LEAST)
    return found


def link_equal_numbers(weights: Weights, source: Sequence[str], target: Sequence[str]) -> None:
    """Link each target word with a digit to the only source word that is equal, if there is one. weights (J, I), which
    are changed."""
    for j, word in enumerate(target):
        if any(map(str.isdecimal, word)) and source.count(word) == 1:
            weights[j] = 0
            weights[j, source.index(word)] = 1


def links_of(weights: Weights) -> list[Link]:
    """The links of words, sorted: those with a weight of at least `_LINKED`."""
    return [(int(i), int(j)) for i, j in np.argwhere(weights.T >= _LINKED)]
