"""kvjobs: a lane per core, one thread each, with shared sessions; each lane packs its sequences."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.checkpoints.folders import made_once
from jobs.system.process import available_cores
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.protocol import Group, Reader
from worker.engine.runtime.run_context import RunContext


@dataclass(slots=True)
class Model:
    network: NativeCausal
    precision: str
    lanes: list[Reader]


def prepare(checkpoint: Path, folder: Path, precision: str) -> Model:
    """Make the model as `kvjobs models add CHECKPOINT --precision PRECISION` does."""
    made = made_once(folder / f"ours-{precision}", lambda out: ["bench.added", str(checkpoint), str(out), precision])
    network = NativeCausal.open(made)
    return Model(network, precision, [network.new_reader() for _ in range(available_cores())])


def score(model: Model, sequences: list[list[int]]) -> list[list[float]]:
    """Each of n lanes takes every n-th sequence, longest first, so that all have the same amount of work."""
    order = sorted(range(len(sequences)), key=lambda index: -len(sequences[index]))
    found: list[list[float]] = [[]] * len(sequences)

    def work(lane: int) -> None:
        share = order[lane :: len(model.lanes)]
        groups = [Group([], [sequences[index]]) for index in share]
        for place, (log_probs,) in model.lanes[lane].read(groups, RunContext()):
            found[share[place]] = log_probs.tolist()

    with ThreadPoolExecutor(len(model.lanes)) as lanes:
        for _ in lanes.map(work, range(len(model.lanes))):  # raises what a lane raised
            pass
    return found


def configuration(model: Model) -> str:
    return (
        f"kvjobs {version('kvjobs')}, onnxruntime {version('onnxruntime')}, {model.precision}, "
        f"{len(model.lanes)} lanes of 1 thread"
    )
