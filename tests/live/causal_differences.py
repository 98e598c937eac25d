"""
How far log-probabilities of native graphs are from those of transformers, by family: the table in docs/models.md.

    python -m tests.live.causal_differences

Tiny models with random weights; texts of 1 to 128 tokens, packed, in chunks, alone, and behind shared prefixes.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.causal_checkpoints import write_causal_checkpoint, write_kv_model
from tests.causal_families import FAMILIES, write_family
from tests.live.test_causal_against_transformers import MODELS, of_group
from tests.live.test_causal_families import READERS, draw_groups, open_network
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.native.reader import PackedReader
from worker.engine.causal.protocol import Group, LogProbs
from worker.engine.runtime.run_context import RunContext
from worker.graphs.precision import Precision


def main() -> None:
    worst: dict[str, list[float]] = {}
    for name, found in _differences():
        family = name.partition(",")[0]
        worst[family] = [max(one, other) for one, other in zip(found, worst.get(family, found), strict=True)]
    print("| family | fp32, largest | int8, mean | fp16, mean |\n|---|---:|---:|---:|")
    for family, (fp32, int8, fp16) in worst.items():
        print(f"| {family} | {fp32:.1e} | {int8:.1e} | {fp16:.1e} |")


def _differences() -> Iterator[tuple[str, list[float]]]:
    for name, options in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = write_causal_checkpoint(Path(folder) / "checkpoint", name.partition(",")[0], seed=9, **options)
            yield name, _of_checkpoint(checkpoint, open_network(checkpoint))
    for name in FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = write_family(Path(folder) / "checkpoint", name, seed=9)
            yield name, _of_checkpoint(checkpoint, open_network(checkpoint, is_alibi_falcon=name == "falcon, alibi"))


def _of_checkpoint(checkpoint: Path, network: Any) -> list[float]:
    """The largest difference in fp32, the mean in int8 and in fp16."""
    models = {one: NativeCausal.open(write_kv_model(checkpoint, checkpoint.parent / one, one)) for one in Precision}
    groups = draw_groups(models[Precision.FP32].max_positions)
    wanted = [of_group(network, group) for group in groups]
    exact = models[Precision.FP32]
    readers = [*(PackedReader(exact.graphs, limits) for limits in READERS.values()), exact.new_whole_reader()]
    largest = max(_gaps(reader, groups, wanted).max() for reader in readers)
    means = [_gaps(PackedReader(models[one].graphs), groups, wanted).mean() for one in (Precision.INT8, Precision.FP16)]
    return [float(one) for one in (largest, *means)]


def _gaps(reader: Any, groups: list[Group], wanted: list[list[LogProbs]]) -> LogProbs:
    found = dict(reader.read(groups, RunContext()))
    gaps = [
        np.abs(one - other) for index, each in enumerate(wanted) for one, other in zip(found[index], each, strict=True)
    ]
    return np.concatenate(gaps)


if __name__ == "__main__":
    main()
