"""A translation model of either kind: graphs of our own, or as they were exported."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from jobs.spec import TranslateOptions
from worker.engine.runtime.session import PROVIDER, Provider
from worker.engine.runtime.timing import Stopwatch
from worker.engine.search.generation_config import Generation
from worker.engine.seq2seq.continuous_batching import Found
from worker.engine.seq2seq.exported_decoder import BatchDecoder
from worker.engine.seq2seq.exported_model import Seq2Seq
from worker.engine.seq2seq.native_decoder import KVDecoder
from worker.engine.seq2seq.native_model import KVModel
from worker.models.manifest import MANIFEST, Manifest

Network = KVModel | Seq2Seq


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
        rules: Generation,
        options: TranslateOptions,
        stopwatch: Stopwatch,
        should_stop: Callable[[], bool],
    ) -> Iterator[Found]: ...


def open_network(folder: Path, *, threads: int = 1, providers: Sequence[Provider] = (PROVIDER,)) -> Network:
    """Open the model in `folder`; raise ModelError now, not at the first document."""
    if (folder / MANIFEST).is_file() and Manifest.read(folder).layout == "kv":
        return KVModel.open(folder, threads=threads, providers=providers)
    return Seq2Seq.open(folder, threads=threads, providers=providers)


def new_decoder(network: Network) -> Decoder:
    """The buffers of one lane."""
    return KVDecoder(network) if isinstance(network, KVModel) else BatchDecoder(network)
