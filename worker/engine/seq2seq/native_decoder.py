"""
One lane's way through graphs of our own: with the cache, or without it where the job asks for that.

Knows: both decoders. Does not know: what they do.
"""

from collections.abc import Callable, Iterator, Sequence

from jobs.spec import TranslateOptions
from worker.engine.runtime.timing import Stopwatch
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.seq2seq.continuous_batching import ContinuousDecoder, Found
from worker.engine.seq2seq.native_model import NativeSeq2Seq
from worker.engine.seq2seq.uncached_decoder import UncachedDecoder, uncached_steps


class NativeDecoder:
    """The buffers of one lane for one model."""

    def __init__(self, model: NativeSeq2Seq) -> None:
        self._cached = ContinuousDecoder(model)
        self._uncached = UncachedDecoder(model)  # holds no memory before it is used

    @property
    def num_bytes(self) -> int:
        """Memory of the buffers."""
        return self._cached.num_bytes + self._uncached.num_bytes

    @property
    def allocations(self) -> int:
        """How often memory was asked for."""
        return self._cached.allocations + self._uncached.allocations

    @property
    def reuses(self) -> int:
        """How often the buffers were large enough."""
        return self._cached.reuses + self._uncached.reuses

    def decode(
        self,
        segments: Sequence[Sequence[int]],
        rules: GenerationConfig,
        options: TranslateOptions,
        stopwatch: Stopwatch,
        should_stop: Callable[[], bool],
    ) -> Iterator[Found]:
        """Every segment once, as it ends."""
        decoder = self._uncached if uncached_steps(options.cache) else self._cached
        return decoder.decode(segments, rules, options, stopwatch, should_stop)
