"""
Where a decoder attends in the translations that it writes, recorded while it writes them.

A step outputs the queries of cross-attention of the layers that tell which words belong together; the keys are the
encoder's. What a row has read is a path in the tree of the beginnings of its sentence: as rows move and beams part, a
row keeps its place in the tree, and the path of a hypothesis is found by its ids.

Knows: rows, ids, queries, keys. Does not know: how a token is chosen, graphs.

Shapes: R rows, `beams` per sentence · m sentences · S source length · T tokens of a hypothesis · L layers of the
decoder · C those that are recorded · N heads · H head size.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.search.logit_rules import Ids

_ROOT = 0


class AttentionRecorder:
    """The running rows of one decoder, and the queries of each of their steps until their sentence ends."""

    def __init__(self, layers: Sequence[int], scale: float, beams: int, head: int | None = None) -> None:
        """`layers`: whose queries the steps output, numbered as in the decoder; `scale`: of the scores of attention;
        `head`: that to record, None: the mean of all."""
        self._parts = [2 * layer for layer in layers]  # of the encoder's output: the keys
        self._heads = slice(None) if head is None else slice(head, head + 1)
        self._scale = np.float32(scale)
        self._beams = beams
        self._sentences: dict[int, _Beginnings] = {}
        self._rows: list[tuple[_Beginnings, int]] = []  # of each row its sentence, and the beginning that it has read

    def begin(self, sentences: Sequence[int], cross: NDArray[Any]) -> None:
        """Add sentences, in rows behind the others. cross (m, S, 2 L, N, H): the encoder's keys and values, in the type
        of the cache."""
        for sentence, keys in zip(sentences, cross[:, :, self._parts], strict=True):
            begun = self._sentences[sentence] = _Beginnings(keys)
            self._rows += [(begun, _ROOT)] * self._beams

    def read(self, ids: Ids, queries: NDArray[np.float32]) -> None:
        """Append to each row the id (R,) that a step read in it, with its queries (R, C N H)."""
        own = queries.copy()  # the next step overwrites them
        self._rows = [
            (begun, begun.add(before, token, query))
            for (begun, before), token, query in zip(self._rows, ids.tolist(), own, strict=True)
        ]

    def select(self, rows: Ids) -> None:
        """Give row i the content of row rows[i]; rows that are not in `rows` are dropped."""
        self._rows = [self._rows[row] for row in rows.tolist()]

    def weights(self, sentence: int, ids: Sequence[int]) -> NDArray[np.float32]:
        """The mean weights of attention over the layers and heads (T, S) at the steps that read `ids`, the start first,
        in a sentence that has ended."""
        return self._sentences[sentence].weights(ids, self._scale, self._heads)

    def end(self, sentence: int) -> None:
        """Forget a sentence."""
        self._sentences.pop(sentence, None)


class _Beginnings:
    """The tree of the beginnings of a sentence's translations that were read: a node is a beginning by its number."""

    def __init__(self, keys: NDArray[Any]) -> None:
        self._keys = keys  # (S, C, N, H)
        self._numbers: dict[tuple[int, int], int] = {}  # by the beginning without its last token, and that token
        self._queries: list[NDArray[np.float32]] = []  # (C N H,) of each beginning, from number 1

    def add(self, before: int, token: int, query: NDArray[np.float32]) -> int:
        """The number of the beginning that is one token longer. Beams that are equal at first are one."""
        found = self._numbers.get((before, token))
        if found is None:
            self._queries.append(query)
            found = self._numbers[before, token] = len(self._queries)
        return found

    def weights(self, ids: Sequence[int], scale: np.float32, heads: slice) -> NDArray[np.float32]:
        own, at = [], _ROOT
        for token in ids:
            at = self._numbers[at, token]
            own.append(self._queries[at - 1])
        keys = self._keys.astype(np.float32).transpose(1, 2, 3, 0)  # (C, N, H, S)
        num_layers, num_heads, size, _length = keys.shape
        queries = np.stack(own).reshape(-1, num_layers, num_heads, size).transpose(1, 2, 0, 3)  # (C, N, T, H)
        scores = queries[:, heads] * scale @ keys[:, heads]  # (C, N, T, S)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        mean: NDArray[np.float32] = scores.mean(axis=(0, 1), dtype=np.float32)
        return mean
