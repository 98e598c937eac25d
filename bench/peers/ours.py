"""kvjobs: lanes with shared sessions, each with its own slots and segments. A lane per core with one thread each,
unless `tune` finds that one lane on all cores is faster for a few segments."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.checkpoints.folders import made_once
from bench.harness.fastest import fastest
from jobs.system.process import available_cores
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.seq2seq.protocol import Decoder

_FEW = 16  # segments: of so few, lanes may stand idle


@dataclass(frozen=True, slots=True)
class Layout:
    """How the segments are spread over the cores."""

    lanes: int
    threads: int  # of each lane


class Model:
    """The graphs, opened once for each number of threads, and their lanes."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self._folder = folder
        self._opened: dict[Layout, tuple[NativeSeq2Seq, list[Decoder]]] = {}
        self.use(layout)

    def use(self, layout: Layout) -> None:
        """Run with this layout from now on."""
        if layout not in self._opened:
            network = NativeSeq2Seq.open(self._folder, threads=layout.threads)
            self._opened[layout] = network, [network.new_decoder() for _ in range(layout.lanes)]
        self.layout = layout
        self.network, self.lanes = self._opened[layout]

    def keep(self, layout: Layout) -> None:
        """Use this layout, and free what others need."""
        self.use(layout)
        self._opened = {layout: self._opened[layout]}


def prepare(checkpoint: Path, folder: Path, precision: str) -> Model:
    """Make the model as `kvjobs models add CHECKPOINT --precision PRECISION` does, in another process: to measure drift
    takes more memory than to translate."""
    made = made_once(folder / f"ours-{precision}", lambda out: ["bench.added", str(checkpoint), str(out), precision])
    return Model(made, Layout(available_cores(), 1))


def tune(model: Model, segments: list[list[int]], *, beams: int, forced_length: int | None) -> None:
    """For a few segments, a lane per core or one lane on all cores; many keep all lanes busy."""
    if len(segments) > _FEW:
        return

    def translate(layout: Layout) -> None:
        model.use(layout)
        run(model, segments, beams=beams, forced_length=forced_length)

    cores = available_cores()
    model.keep(fastest([Layout(*some) for some in dict.fromkeys([(cores, 1), (1, cores)])], translate))


def run(model: Model, segments: list[list[int]], *, beams: int, forced_length: int | None) -> list[list[int]]:
    """Each of n lanes takes every n-th segment, longest first, so that all have the same amount of work."""
    network = model.network
    rules = dataclasses.replace(network.generation, num_beams=beams)
    if forced_length:
        rules = dataclasses.replace(
            rules, min_new_tokens=forced_length, max_new_tokens=forced_length, forced_eos_id=None
        )
    order = sorted(range(len(segments)), key=lambda index: -len(segments[index]))
    found: list[list[int]] = [[]] * len(segments)

    def work(lane: int) -> None:
        share = order[lane :: len(model.lanes)]
        ids = [segments[index] for index in share]
        for ended in model.lanes[lane].decode(ids, rules, RunContext(), batch_size=None):
            for place, hypotheses in ended:
                found[share[place]] = [token_id for token_id in hypotheses[0].ids if token_id != rules.eos_id]

    with ThreadPoolExecutor(len(model.lanes)) as lanes:
        for _ in lanes.map(work, range(len(model.lanes))):  # raises what a lane raised
            pass
    return found


def head_size(model: Model) -> int | None:
    """The number of ids in the head."""
    return model.network.graphs.num_target_ids


def configuration(model: Model, *, beams: int) -> str:
    return (
        f"kvjobs {version('kvjobs')}, onnxruntime {version('onnxruntime')}, {model.network.graphs.precision}, head of "
        f"{model.network.graphs.num_target_ids:,} ids, {model.layout.lanes} lanes of {model.layout.threads} threads, "
        f"{model.network.graphs.slot_count(beams)} slots each"
    )
