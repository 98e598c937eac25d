"""A translation model of either kind: graphs of our own, or as they were exported."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from jobs.spec import TranslateOptions
from worker.engine.runtime.session import PROVIDER, Provider
from worker.engine.runtime.timing import Stopwatch
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.seq2seq.continuous_batching import Found
from worker.engine.seq2seq.exported_decoder import ExportedDecoder
from worker.engine.seq2seq.exported_model import ExportedSeq2Seq
from worker.engine.seq2seq.native_decoder import NativeDecoder
from worker.engine.seq2seq.native_model import NativeSeq2Seq
from worker.models.manifest import MANIFEST, Manifest

Network = NativeSeq2Seq | ExportedSeq2Seq


class Decoder(Protocol):
    """What a lane has of a model: buffers, and the way through them."""

    @property
    def num_bytes(self) -> int: ...
    @property
    def allocations(self) -> int: ...
    @property
    def reuses(self) -> int: ...
    def decode(
        self,
        segments: Sequence[Sequence[int]],
        rules: GenerationConfig,
        options: TranslateOptions,
        stopwatch: Stopwatch,
        should_stop: Callable[[], bool],
    ) -> Iterator[Found]: ...


def open_translation_model(folder: Path, *, threads: int = 1, providers: Sequence[Provider] = (PROVIDER,)) -> Network:
    """Open the model in `folder`; raise ModelError now, not at the first document."""
    if (folder / MANIFEST).is_file() and Manifest.read(folder).layout == "kv":
        return NativeSeq2Seq.open(folder, threads=threads, providers=providers)
    return ExportedSeq2Seq.open(folder, threads=threads, providers=providers)


def new_decoder(network: Network) -> Decoder:
    """The buffers of one lane."""
    return NativeDecoder(network) if isinstance(network, NativeSeq2Seq) else ExportedDecoder(network)
