"""A split model computes what the whole model computes, bit for bit."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from jobs.tasks.shared_options import CachePolicy
from tests.models.engine.causal.greedy_oracle import generate
from tests.models.engine.causal.native.test_generation import RULES, TIGHT, prompts
from tests.models.engine.causal.native.test_reader import LIMITS, difference, mixture, read
from tests.models.engine.causal.native.tiny_causal import MAX_POSITIONS, MODELS, TinyCausal, write_tiny
from tests.repetition import cover
from tests.split_models import split_kv_model
from worker.engine.causal.continuous_generation import ContinuousGenerator
from worker.engine.causal.native.generation_rows import CachedRows
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.native.reader import PackedReader
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation import Continuation
from worker.graphs.precision import Precision

LAYERS = 4
OF_OTHER_LENGTHS = (2, LAYERS)  # stages without one in the middle; of a layer each. Three are one, one and two layers
Models = Callable[..., tuple[NativeCausal, NativeCausal]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """A tiny model of four layers, and the same in so many stages."""
    whole: dict[tuple[str, Precision], TinyCausal] = {}

    def make(name: str, stages: int, precision: Precision = Precision.FP32) -> tuple[NativeCausal, NativeCausal]:
        if (name, precision) not in whole:
            whole[name, precision] = write_tiny(tmp_path_factory.mktemp("whole"), name, precision, layers=LAYERS)
        timing = whole[name, precision]
        return timing.model, NativeCausal.open(
            split_kv_model(timing.folder, tmp_path_factory.mktemp("s") / "split", stages)
        )

    return make


@pytest.mark.parametrize(
    ("name", "stages", "precision"),
    [
        *cover(MODELS, [3], [Precision.INT8, Precision.FP32]),
        *itertools.product(["mistral, window"], OF_OTHER_LENGTHS, [Precision.FP32]),
    ],
)
def test_log_probabilities_are_those_of_the_whole_model(
    models: Models, name: str, stages: int, precision: Precision
) -> None:
    """Packed, in chunks, behind shared prefixes that the next suffix rolls back to, and each sequence alone."""
    whole, split = models(name, stages, precision)
    for limits in (LIMITS["roomy"], TIGHT):
        found, wanted = (read(PackedReader(model.graphs, limits), mixture()) for model in (split, whole))
        assert difference(found, wanted) == 0
    found, wanted = (read(model.new_whole_reader(), mixture()) for model in (split, whole))
    assert difference(found, wanted) == 0


@pytest.mark.parametrize(
    ("name", "stages", "rules"),
    cover(["qwen3", "mistral, window"], [3, 3, *OF_OTHER_LENGTHS], ["penalties", "ends", "sampled", "greedy"]),
)
def test_continuations_are_those_of_the_whole_model(models: Models, name: str, stages: int, rules: str) -> None:
    """Rows of different lengths, that end and are refilled; prompts in chunks; with the cache and without."""
    both = models(name, stages)
    for policy in (CachePolicy(), CachePolicy("off")):
        found, wanted = (continued(model.new_generator(policy), rules, 32) for model in reversed(both))
        assert found == wanted
    cut = [
        ContinuousGenerator(lambda part=part: CachedRows(part.graphs, TIGHT), MAX_POSITIONS) for part in reversed(both)
    ]
    found, wanted = (continued(generator, rules, 3) for generator in cut)
    assert found == wanted


def continued(generator: ContinuousGenerator, rules: str, batch_size: int) -> list[Continuation]:
    """The continuation of each prompt, in their order."""
    ended = generator.generate(prompts(), RULES[rules], RunContext(), batch_size=batch_size)
    return [found for _, found in sorted((pair for some in ended for pair in some), key=lambda pair: pair[0])]


def test_int8_continuations_are_those_of_the_whole_model(models: Models) -> None:
    whole, split = models("llama", 3, Precision.INT8)
    found, wanted = (generate(model, prompts(), RULES["greedy"]) for model in (split, whole))
    assert found == wanted


def test_each_stage_is_timed_within_its_call(models: Models) -> None:
    _, split = models("llama", 3)
    run = RunContext()
    list(split.new_reader().read(mixture()[:3], run))

    calls = [timing for timing in run.timings if timing.phase == "prefill"]
    stages = [[timing for timing in run.timings if timing.phase == f"stage.{number}"] for number in range(3)]
    assert calls
    for call, *parts in zip(calls, *stages, strict=True):
        assert {(part.rows, part.tokens) for part in parts} == {(call.rows, call.tokens)}
        assert sum(part.seconds for part in parts) <= call.seconds


def test_a_stage_has_the_keys_and_values_of_its_own_layers_alone(models: Models) -> None:
    whole, split = models("llama", 2)
    memory = []
    for model in (whole, split):
        body = model.graphs.new_body()
        body.begin_slots(4, 64)
        body.begin_sequence(256)
        memory.append([stage.buffer_stats.num_bytes for stage in body._stages])
    assert sum(memory[1]) == memory[0][0]
    assert min(memory[1]) > 0


def test_the_stages_of_a_model_have_its_weights_and_no_others(tmp_path: Path) -> None:
    whole = write_tiny(tmp_path, "llama, biases, own head, heads of 10", Precision.FP32, layers=LAYERS)
    for stages in (2, 3, LAYERS):
        split = split_kv_model(whole.folder, tmp_path / f"{stages}", stages)
        size = sum(file.stat().st_size for file in split.glob("*.data"))
        rounding = 4096 * 20 * LAYERS
        # Each stage has tables of rotations of its own.
        rotations = 2 * (stages - 1) * (96 + 256) * 16 * 4
        assert size <= (whole.folder / "weights.data").stat().st_size + rotations + rounding


def test_garbage_in_the_buffers_of_a_stage_changes_nothing(models: Models) -> None:
    _, split = models("qwen2", 2)
    reader = PackedReader(split.graphs, TIGHT)
    first = read(reader, mixture())
    for stage in reader._body._stages:
        stage._cache._laid_out.fill(np.nan)  # type: ignore[attr-defined]
    assert difference(read(reader, mixture()), first) == 0
