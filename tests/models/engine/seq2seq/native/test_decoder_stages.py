"""A translation model whose encoder and decoder are stages computes what the whole model computes, bit for bit."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints import write_marian_checkpoint, write_weights
from tests.split_models import split_kv_model
from tests.tiny_models import decode
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.seq2seq.batches import IdPair
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.graphs.file_names import SCREENED
from worker.graphs.precision import Precision
from worker.graphs.seq2seq import graphs as marian
from worker.model_tools.add.add import Request, add_model
from worker.models.checkpoint.checkpoint import Checkpoint

LAYERS = 3
LENGTHS = (3, 7, 7, 1, 12, 5, 5, 9, 20, 2)
KINDS = ("bias", "int8", "screened")  # in int8; the others in fp32, narrowed down in int8, one of them with a bias
Models = Callable[[str, int], tuple[NativeSeq2Seq, NativeSeq2Seq]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, NativeSeq2Seq]:
    """Tiny models of three layers, by kind, opened in their folders."""
    folder, models = tmp_path_factory.mktemp("whole"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marian, "LARGE_HEAD", 8)
        for kind in KINDS:
            checkpoint = write_marian_checkpoint(folder / kind, layers=LAYERS, target_vocab_size=60)
            if kind != "bias":
                weights = dict(Checkpoint.open(checkpoint).weights)
                weights["final_logits_bias"] = np.zeros_like(weights["final_logits_bias"])
                write_weights(checkpoint, weights, dtype="F32", shards=1)
            precision = Precision.INT8 if kind == "int8" else Precision.FP32
            add_model(Request(source=str(checkpoint), name=kind, precision=precision), folder / "models")
            assert (folder / "models" / kind / SCREENED).is_file() == (kind != "int8")
            models[kind] = folder / "models" / kind
    return {kind: NativeSeq2Seq.open(path) for kind, path in models.items()}


@pytest.fixture(scope="module")
def models(whole: dict[str, NativeSeq2Seq], tmp_path_factory: pytest.TempPathFactory) -> Models:
    """A model, and the same in so many stages."""

    def make(kind: str, stages: int) -> tuple[NativeSeq2Seq, NativeSeq2Seq]:
        folder = folder_of(whole[kind])
        return whole[kind], NativeSeq2Seq.open(split_kv_model(folder, tmp_path_factory.mktemp("s") / "split", stages))

    return make


def folder_of(model: NativeSeq2Seq) -> Path:
    return model.graphs._last.parent


def rules_of(model: NativeSeq2Seq, beams: int) -> GenerationConfig:
    return dataclasses.replace(model.generation, num_beams=beams)


def sources() -> list[list[int]]:
    rng = np.random.default_rng(2)
    return [[*rng.integers(2, 58, length - 1).tolist(), 0] for length in LENGTHS]


@pytest.mark.parametrize(
    ("kind", "stages", "beams"),
    [("bias", 3, 1), ("int8", 3, 3), ("screened", 2, 3), ("screened", LAYERS + 1, 1)],
)
def test_translations_are_those_of_the_whole_model(models: Models, kind: str, stages: int, beams: int) -> None:
    """Ids and log-probabilities: with the cache, in slots that are refilled; without; and without at first."""
    whole, split = models(kind, stages)
    rules = rules_of(whole, beams)
    for cache, rows in (("auto", 3), ("off", 32), ("hybrid:2", 32)):
        found, wanted = (decode(model, sources(), rules, rows=rows, cache=cache) for model in (split, whole))
        assert found == wanted, (cache, rows)


@pytest.mark.parametrize("stages", range(2, LAYERS + 2))
@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_given_targets_are_those_of_the_whole_model(models: Models, kind: str, stages: int) -> None:
    both = models(kind, stages)
    pairs = [IdPair(tuple(ids), tuple(ids[:9])) for ids in sorted(sources(), key=len, reverse=True)]
    wanted, found = (model.new_scorer().log_probs(pairs, RunContext()) for model in both)
    for log_probs, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(log_probs, expected)


def test_each_stage_is_timed_within_its_step(models: Models) -> None:
    _, split = models("bias", 3)
    run = RunContext()
    list(split.new_decoder().decode(sources(), rules_of(split, 1), run, batch_size=4))

    steps = [timing for timing in run.timings if timing.phase == "decode"]
    parts = [[timing for timing in run.timings if timing.phase == f"stage.{number}"] for number in (1, 2)]
    assert steps
    for step, *stages in zip(steps, *parts, strict=True):
        assert {(timing.step, timing.rows, timing.past_length) for timing in stages} == {
            (step.step, step.rows, step.past_length)
        }
        assert sum(timing.seconds for timing in stages) <= step.seconds


def test_a_stage_has_the_keys_and_values_of_its_own_layers_alone(models: Models) -> None:
    memory = []
    for model in models("bias", LAYERS + 1):
        slots = model.graphs.new_slots()
        slots.allocate(4, 1, 16, 16)
        memory.append([stage.buffer_stats.num_bytes for stage in slots._stages])
    assert len(memory[1]) == LAYERS
    assert sum(memory[1]) == memory[0][0]
