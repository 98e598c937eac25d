"""kvjobs: two lanes or more, one thread each, that share the sessions."""

import dataclasses
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.peers.peer_optimum import exported
from jobs.process import available_cores
from jobs.spec import CachePolicy
from worker.engine.batching import make_batches
from worker.engine.decoding import Decoding
from worker.engine.kv_cache import KVCache
from worker.engine.search import search
from worker.engine.seq2seq import Seq2Seq
from worker.engine.timing import Stopwatch

_BATCH_SIZE = 32


@dataclass(slots=True)
class Model:
    network: Seq2Seq
    caches: list[KVCache]  # a lane each


def prepare(checkpoint: Path, folder: Path, precision: str) -> Model:
    """Open the checkpoint in the merged layout, in fp32 whatever `precision` says: there are no other graphs yet."""
    network = Seq2Seq.open(exported(checkpoint, folder, "merged"))
    return Model(network, [network.new_cache() for _ in range(available_cores())])


def run(model: Model, segments: list[list[int]], *, beams: int, forced_length: int | None) -> list[list[int]]:
    """Batches of similar lengths, the longest first, each taken by the lane that is free."""
    network = model.network
    rules = dataclasses.replace(network.generation, num_beams=beams)
    if forced_length:
        rules = dataclasses.replace(
            rules, min_new_tokens=forced_length, max_new_tokens=forced_length, forced_eos_id=None
        )
    rest = deque(make_batches(segments, max_rows=max(1, _BATCH_SIZE // beams), pad_id=network.pad_id))
    found: list[list[int]] = [[]] * len(segments)

    def work(cache: KVCache) -> None:
        while True:
            try:
                batch = rest.popleft()
            except IndexError:
                return
            decoding = Decoding(network, cache, batch, policy=CachePolicy("on"), stopwatch=Stopwatch())
            for index, hypotheses in zip(batch.order, search(decoding, len(batch.order), rules), strict=True):
                found[index] = [token_id for token_id in hypotheses[0].ids if token_id != rules.eos_id]

    with ThreadPoolExecutor(len(model.caches)) as lanes:
        for _ in lanes.map(work, model.caches):  # raises what a lane raised
            pass
    return found


def configuration(model: Model, *, beams: int) -> str:
    return (
        f"kvjobs {version('kvjobs')}, onnxruntime {version('onnxruntime')}, merged decoder in fp32, "
        f"{len(model.caches)} lanes of 1 thread, batches of {max(1, _BATCH_SIZE // beams)}"
    )
