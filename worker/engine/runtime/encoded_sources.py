"""
What the encoder made of the sources of a run, kept for their second reading: a translation that holds marks is read
again to align its words.

Knows: arrays and ids. Does not know: graphs, texts. Shapes: S source length · L layers · N heads · H head size.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from numpy.typing import NDArray

# A sentence of 30 tokens takes 0.1 MB of the bundled model and 0.7 MB of OPUS-MT; of what does not fit the encoder runs
# again.
MAX_BYTES = 64 << 20


class EncodedSources:
    """The states of the sources of one lane's run, of one model or two. Not for several threads."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._free = max_bytes
        self._states: dict[tuple[Hashable, tuple[int, ...]], NDArray[Any]] = {}

    def keep(self, encoder: Hashable, sources: Sequence[Sequence[int]], states: NDArray[Any]) -> None:
        """Keep the states (m, S, 2 L, N, H) of `sources`, as long as they fit. `encoder`: whose they are."""
        if states.nbytes > self._free:
            return
        self._free -= states.nbytes
        for source, own in zip(sources, states, strict=True):
            self._states[encoder, tuple(source)] = own

    def get(self, encoder: Hashable, source: Sequence[int]) -> NDArray[Any] | None:
        """The states of a source (S, 2 L, N, H); None: they were not kept."""
        return self._states.get((encoder, tuple(source)))
