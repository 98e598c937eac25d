"""
From weights of attention to links between words.

Knows: which words a token covers, weights. Does not know: models, how tokens are cut.

Shapes: T tokens of the target · S tokens of the source.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Link = tuple[int, int]  # a word of the source, one of the target
Covered = Sequence[Collection[int]]  # for each token, the words that it is a part of, or that are parts of it

_NEIGHBOURS = [step for step in product((-1, 0, 1), repeat=2) if any(step)]


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


def word_links(weights: NDArray[Any], source: Covered, target: Covered) -> list[Link]:
    """The links between words, sorted. weights (T, S), of the tokens whose words are `target` and `source`.

    Each target token is linked to the source token with the greatest weight, each source token to the target token
    with the greatest weight; only tokens of words take part. The links are those that both directions have, and those
    of either that continue them (`grow`).
    """
    rows, columns = (np.array([index for index, words in enumerate(side) if words], int) for side in (target, source))
    if not (len(rows) and len(columns)):
        return []
    weights = weights[np.ix_(rows, columns)]
    by_target = zip(columns[weights.argmax(1)].tolist(), rows.tolist(), strict=True)
    by_source = zip(columns.tolist(), rows[weights.argmax(0)].tolist(), strict=True)
    found = [{link for s, t in links for link in product(source[s], target[t])} for links in (by_target, by_source)]
    return sorted(grow(found[0] & found[1], found[0] | found[1]))


def grow(links: Collection[Link], among: Collection[Link]) -> set[Link]:
    """Add links of `among` that are neighbours of a link, also diagonally, and of which a word has no link yet, until
    there are none (grow-diag of Koehn et al. 2005, "Edinburgh System Description for the 2005 IWSLT")."""
    grown, free = set(links), set(among) - set(links)
    sources, targets = {i for i, _ in grown}, {j for _, j in grown}
    open_links = sorted(grown)
    for link in open_links:  # grows meanwhile
        for near in _near(link):
            if near in free and (near[0] not in sources or near[1] not in targets):
                free.remove(near)
                grown.add(near)
                sources.add(near[0])
                targets.add(near[1])
                open_links.append(near)
    return grown


def _near(link: Link) -> Iterator[Link]:
    for i, j in _NEIGHBOURS:
        yield link[0] + i, link[1] + j
