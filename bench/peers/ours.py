"""kvjobs: a lane per core, one thread each, with shared sessions; each lane has its own slots and segments."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from jobs.process import available_cores
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.seq2seq.protocol import Decoder
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model


@dataclass(slots=True)
class Model:
    network: NativeSeq2Seq
    lanes: list[Decoder]


def prepare(checkpoint: Path, folder: Path, precision: str) -> Model:
    """Make the model as `kvjobs models add CHECKPOINT --precision PRECISION` does."""
    request = Request(source=str(checkpoint), precision=Precision(precision), name=f"ours-{precision}", force=True)
    add_model(request, folder)
    network = NativeSeq2Seq.open(folder / f"ours-{precision}")
    return Model(network, [network.new_decoder() for _ in range(available_cores())])


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
        for ended in model.lanes[lane].decode(ids, rules, RunContext(), batch_size=_slots(beams)):
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
        f"{model.network.graphs.num_target_ids:,} ids, {len(model.lanes)} lanes of 1 thread, {_slots(beams)} slots each"
    )


def _slots(beams: int) -> int:
    """Sentences of a lane: 64 rows of a step, or 128 with beams, where 64 took 14 % longer a token."""
    return 64 if beams == 1 else max(1, 128 // beams)
