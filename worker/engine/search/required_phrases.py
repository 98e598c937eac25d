"""
Which required phrases a beam holds, and how far it has come in the next: an automaton over ids.

    sentence 3 requires [7 8 9] or [7 5], and [8 4]

    (root) -7-> o -8-> o -9-> met: 1        A beam is at the node of the longest beginning of a phrase with which its
              |     \\-4-> met: 2            ids end. So a phrase that is given up halfway is no loss: 7 8 4 is at the
              -5-> met: 1                   end of the second phrase, as if it had begun with 8.
     -8-> o -4-> met: 2

The automaton of Aho and Corasick (1975, "Efficient String Matching"); where Hu et al. (2019, NAACL N19-1090) go back to
the root of their trie at a mismatch, it goes to the longest beginning that is left. All sentences of a call share its
arrays. A phrase is met once it stands somewhere in the ids. One that is to be a whole word is held there, and met once
the next id does not go on with the word.

Shapes: any, the same for all arguments of a method. A set of requirements is a number with a bit for each.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.engine.search.logit_rules import Ids


class Phrase(NamedTuple):
    """Ids that stand in a row."""

    ids: tuple[int, ...]
    is_first: bool = False  # whether it counts at the beginning of a translation alone
    is_whole: bool = False  # whether it does not count where the next id goes on with its last word


Phrases = tuple[Phrase, ...]  # one of these has to stand in the translation
MAX_REQUIREMENTS = 62  # of a sentence: bits of a number
_SHIFT = 32  # bits of an id in the key of an edge


class RequiredPhrases:
    """The automata of the sentences of a call."""

    def __init__(self, required: Sequence[Sequence[Phrases]], continuing: Sequence[int] = ()) -> None:
        """`required`: of each sentence its requirements; one without phrases is never met. `continuing`: the ids that
        go on with a word."""
        builder = _Builder()
        self.beginnings: Ids = np.array([builder.add(requirements) for requirements in required], np.int64)
        self.full: Ids = np.array([(1 << len(requirements)) - 1 for requirements in required], np.int64)
        self._lengths = np.zeros((len(required), max(map(len, required), default=0)), np.int64)
        for sentence, requirements in enumerate(required):
            self._lengths[sentence, : len(requirements)] = [longest(phrases) for phrases in requirements]
        self._root_of = np.array(builder.root_of, np.int64)
        self._met = np.array(builder.met, np.int64)
        self._held = np.array(builder.held, np.int64)
        self._goes_on = np.zeros(max(continuing, default=-1) + 2, np.bool_)  # by id; the last one: of all behind it
        self._goes_on[list(continuing)] = True
        self._depth = np.array(builder.depth, np.int64)
        self._begun = np.array(builder.begun, np.int64)
        self._suffixes = np.zeros((len(builder.depth), max(map(len, builder.suffixes))), np.int64)  # behind them node 0
        for node, suffixes in enumerate(builder.suffixes):
            self._suffixes[node, : len(suffixes)] = suffixes
        edges = list(builder.edges())  # by node and id
        self._keys = np.array([node << _SHIFT | token for node, token, _ in edges], np.int64)
        self._targets = np.array([target for *_, target in edges], np.int64)
        self._ids = self._keys & ((1 << _SHIFT) - 1)
        self._helps = self._reached[self._targets]
        self._first = np.searchsorted(self._keys, np.arange(len(self._depth) + 1) << _SHIFT)

    @property
    def _reached(self) -> Ids:
        """The requirements in whose phrases a node, or one of its suffixes, lies: bits by node."""
        reached: Ids = np.bitwise_or.reduce((self._begun | self._met | self._held)[self._suffixes], axis=1)
        return reached

    def follow(self, nodes: Ids, met: Ids, ids: Ids) -> tuple[Ids, Ids]:
        """The nodes, and the requirements that are met for good, once each beam goes on with an id."""
        goes_on = self._goes_on[np.minimum(ids, len(self._goes_on) - 1)]
        met = np.where(goes_on, met, self.held(nodes, met))
        keys = nodes << _SHIFT | ids
        at = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
        if not len(self._keys):
            return nodes, met
        nodes = np.where(self._keys[at] == keys, self._targets[at], self._root_of[nodes])
        return nodes, met | self._met[nodes]

    def held(self, nodes: Ids, met: Ids) -> Ids:
        """The requirements that are met if a translation ends here."""
        held: Ids = met | self._held[nodes]
        return held

    def num_met(self, nodes: Ids, met: Ids, sentences: Ids) -> Ids:
        """How many ids of the phrases of `sentences` beams hold: of what is met the longest phrase, and the beginning
        of one of the others."""
        count = np.zeros(np.broadcast_shapes(met.shape, sentences.shape), np.int64)
        for bit in range(self._lengths.shape[1]):
            count += self._lengths[sentences, bit] * (met >> bit & 1)
        suffixes = self._suffixes[nodes]
        is_begun = (self._begun[suffixes] & ~met[..., None]) != 0
        begun: Ids = np.where(is_begun, self._depth[suffixes], 0).max(axis=-1)
        return count + begun

    def next_ids(self, nodes: Ids, lacking: Ids) -> tuple[Ids, Ids]:
        """The ids (m,) that begin or continue a phrase of what beams are `lacking` (R,), and the beam of each (m,)."""
        first, counts = self._first[nodes], self._first[nodes + 1] - self._first[nodes]
        rows = np.repeat(np.arange(len(nodes)), counts)
        edges = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + first[rows]
        helps: NDArray[np.bool_] = (self._helps[edges] & lacking[rows]) != 0
        return self._ids[edges[helps]], rows[helps]


def longest(phrases: Phrases) -> int:
    """How many ids the longest has."""
    return max((len(phrase.ids) for phrase in phrases), default=0)


class _Builder:
    """Nodes of all sentences. Node 0 belongs to none, has no edge, and is the root of those that require nothing."""

    def __init__(self) -> None:
        self.root_of = [0]
        self.depth = [0]
        self.met = [0]  # the requirements of which a phrase ends here
        self.held = [0]  # those of which a phrase ends here if the word does
        self.begun = [0]  # those of which a longer phrase goes through
        self.suffixes: list[list[int]] = [[0]]  # the node and, ever shorter, the beginnings with which it ends
        self._next: list[dict[int, int]] = [{}]

    def add(self, requirements: Sequence[Phrases]) -> int:
        """Add a sentence; returns the node of its beginning."""
        if len(requirements) > MAX_REQUIREMENTS:
            raise ValueError(f"a sentence has {len(requirements)} requirements; {MAX_REQUIREMENTS} are the most")
        if not any(requirements):
            return 0
        root = self._node(len(self.depth), 0)
        beginning = self._node(root, 0)
        for bit, phrases in enumerate(requirements):
            for phrase in phrases:
                node = beginning if phrase.is_first else root
                for token in phrase.ids:
                    if node not in (root, beginning):
                        self.begun[node] |= 1 << bit
                    if token not in self._next[node]:
                        self._next[node][token] = self._node(root, self.depth[node] + 1)
                    node = self._next[node][token]
                ends = self.held if phrase.is_whole else self.met
                ends[node] |= 1 << bit
        self._link(root, beginning)
        return beginning

    def edges(self) -> Iterator[tuple[int, int, int]]:
        """Each node, id, and node to which it leads, where that is not the root."""
        for node, suffixes in enumerate(self.suffixes):
            leads = {token: target for suffix in reversed(suffixes) for token, target in self._next[suffix].items()}
            yield from ((node, token, leads[token]) for token in sorted(leads))

    def _node(self, root: int, depth: int) -> int:
        self.root_of.append(root)
        self.depth.append(depth)
        self.met.append(0)
        self.held.append(0)
        self.begun.append(0)
        self.suffixes.append([])
        self._next.append({})
        return len(self.depth) - 1

    def _link(self, root: int, beginning: int) -> None:
        """Find the suffixes of the nodes of a sentence, the nearest to the root first."""
        self.suffixes[root], self.suffixes[beginning] = [root], [beginning, root]
        waiting = deque([root, beginning])
        while waiting:
            node = waiting.popleft()
            for token, target in self._next[node].items():
                shorter = (self._next[suffix].get(token) for suffix in self.suffixes[node][1:])
                nearest = next((found for found in shorter if found is not None), root)
                self.suffixes[target] = [target, *self.suffixes[nearest]]
                self.met[target] |= self.met[nearest]
                self.held[target] |= self.held[nearest]
                waiting.append(target)
