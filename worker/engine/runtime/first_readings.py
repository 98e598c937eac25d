"""
What a run keeps of its first reading of sentences, for what reads them again with their translations: a translation
that holds marks, or whose alignment is wanted, is read again to align its words.

Of a translation that was decoded in this run the weights of attention are kept, so that nothing reads it again; of
each source what the encoder made of it, for translations that are cut into other tokens than the model wrote.

Knows: arrays and ids. Does not know: graphs, texts.
Shapes: S source length · T target length · L layers · N heads · H head size.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Of each of the two. A sentence of 30 tokens takes 0.1 MB of the bundled model and 0.7 MB of OPUS-MT, and 4 kB of its
# weights of attention; of what does not fit encoder and decoder run again.
MAX_BYTES = 64 << 20

Ids = Sequence[int]


class FirstReadings:
    """Of one lane's run, by one model or two. Not for several threads."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._free = self._free_for_attention = max_bytes
        self._states: dict[tuple[Hashable, tuple[int, ...]], NDArray[Any]] = {}
        self._attention: dict[tuple[Hashable, tuple[int, ...], tuple[int, ...]], NDArray[np.float32]] = {}

    def keep(self, model: Hashable, sources: Sequence[Ids], states: NDArray[Any]) -> None:
        """Keep the states (m, S, 2 L, N, H) of `sources`, as long as they fit. `model`: whose they are."""
        if states.nbytes > self._free:
            return
        self._free -= states.nbytes
        for source, own in zip(sources, states, strict=True):
            self._states[model, tuple(source)] = own

    def get(self, model: Hashable, source: Ids) -> NDArray[Any] | None:
        """The states of a source (S, 2 L, N, H); None: they were not kept."""
        return self._states.get((model, tuple(source)))

    def keep_attention(self, model: Hashable, source: Ids, target: Ids, weights: NDArray[np.float32]) -> None:
        """Keep the weights (T, S) of the model's chosen attention at the steps that wrote `target`, if they fit."""
        if weights.nbytes <= self._free_for_attention:
            self._free_for_attention -= weights.nbytes
            self._attention[model, tuple(source), tuple(target)] = weights

    def attention(self, model: Hashable, source: Ids, target: Ids) -> NDArray[np.float32] | None:
        """The weights (T, S) at the steps that wrote `target`; None: they were not kept."""
        return self._attention.get((model, tuple(source), tuple(target)))
