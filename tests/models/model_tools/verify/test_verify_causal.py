"""`models verify` of causal models: correct models pass and wrong ones fail. The reference is in numpy."""

import dataclasses
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import ModelError, SpecError
from tests.causal_checkpoints import write_causal_checkpoint
from tests.causal_exports import VOCAB, Export, LongRope
from tests.messages import line_with
from tests.models.bigrams import write_export
from worker.engine.causal.exported import reader as exported_reader
from worker.engine.causal.open import open_causal_model
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.verify import causal
from worker.model_tools.verify.causal import VerifiedCausal
from worker.model_tools.verify.checks import VerifyCheck
from worker.model_tools.verify.numpy_causal import NumpyCausal
from worker.model_tools.verify.verify import verify
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.departures import departures
from worker.models.departures.window_probe import windows_are_exact
from worker.models.layout.causal_config import CausalConfig
from worker.models.model_folder import ModelFolder

Make = Callable[..., ModelFolder]
LLAMA3 = {
    "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama, scaled, untied, biases": (
        "llama", {"rope_scaling": LLAMA3, "tied": False, "attention_bias": True, "mlp_bias": True}
    ),
    "llama, half as fast, swish": ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}, "hidden_act": "swish"}),
    "mistral": ("mistral", {}),
    "mistral, window": ("mistral", {"sliding_window": 9}),
    "qwen2": ("qwen2", {"kv_heads": 1}),
    "qwen2, window": ("qwen2", {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}),
    "qwen3": ("qwen3", {"head_size": 16, "kv_heads": 4}),
    "bf16": ("llama", {"dtype": "BF16", "shards": 2}),
}  # fmt: skip


@pytest.fixture(autouse=True)
def in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causal, "open_causal_reference", NumpyCausal.open)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A function that adds a model from a random checkpoint."""

    def call(
        family: str = "llama", precision: Precision = Precision.FP32, name: str = "tiny", **shape: Any
    ) -> ModelFolder:
        checkpoint = write_causal_checkpoint(tmp_path / f"{name}-checkpoint", family, **shape)
        added = add_model(Request(source=str(checkpoint), precision=precision, name=name), tmp_path / "models")
        return ModelFolder(name, Path(added.path))

    return call


def documents(count: int = 6) -> list[list[int]]:
    """Random documents; one is longer than the model's 128 positions."""
    rng = np.random.default_rng(3)
    return [rng.integers(1, 260, length).tolist() for length in (2, 200, *rng.integers(3, 40, count - 2))]


def checks(folder: ModelFolder, **options: Any) -> dict[str, VerifyCheck]:
    return {check.name: check for check in verify(folder, documents(), VerifiedCausal(), **options)}


@pytest.mark.parametrize("shape", SHAPES)
def test_graphs_in_fp32_equal_their_checkpoint(make, shape):
    family, options = SHAPES[shape]
    if "window" in shape and not windows_are_exact():  # then `models add` refuses the model
        with pytest.raises(ModelError, match="sliding window"):
            make(family, **options)
        return
    folder = make(family, **options)

    found = checks(folder)

    assert {name: check.verdict for name, check in found.items()} == {
        "packed": "same",
        "cache": "same",
        "checkpoint": "same",
    }
    assert found["checkpoint"].against == "checkpoint, in numpy"
    limits = {"scaled, untied, biases": 2, "window": 2}.get(shape.partition(", ")[2], 0)  # at each, and past it
    assert found["checkpoint"].num_segments == 7 + limits  # and all of them in one
    assert found["packed"].num_tokens == found["checkpoint"].num_tokens
    assert not any(check.has_failed for check in found.values())
    assert (found["checkpoint"].worst or 1.0) < 1e-4


@pytest.mark.parametrize("precision", [Precision.INT8, Precision.FP16])
def test_the_difference_of_a_lower_precision_is_measured(make, precision):
    found = checks(make("qwen2", precision))

    assert {name: check.verdict for name, check in found.items()} == dict.fromkeys(
        ("packed", "cache", "checkpoint", "precision"), "measured"
    )
    for name in ("checkpoint", "precision"):
        check = found[name]
        assert 1e-5 < (check.drift or 0.0) < (check.worst or 0.0)
        assert 0.0 < abs(check.perplexity or 0.0) < 0.2
    assert found["packed"].drift == pytest.approx(0.0, abs=1e-6)
    assert found["precision"].num_segments == 7


def test_perplexity_follows_from_the_mean_log_probability(make):
    exact = make("qwen2", name="other")
    other = checks(exact)["packed"]

    found, nats = checks(make("qwen2", Precision.INT8, "one"), other=exact)["model"], other.nats or 0.0
    assert found.against == "other"
    assert found.verdict == "measured"
    assert found.num_tokens == other.num_tokens
    assert found.perplexity == pytest.approx(math.exp((found.nats or 0.0) - nats) - 1, rel=1e-3)


def test_a_model_that_differs_from_its_checkpoint_fails(make):
    folder = make()
    file = folder.path / "weights.data"
    content = np.fromfile(file, np.float32)
    content[: len(content) // 2] *= 1.1
    content.tofile(file)

    found = checks(folder)

    assert (found["packed"].verdict, found["cache"].verdict) == ("same", "same")  # consistent, but wrong
    assert found["checkpoint"].has_failed


def test_a_model_that_computes_nan_fails(make):
    folder = make()
    file = folder.path / "weights.data"
    np.full(file.stat().st_size // 4, np.nan, np.float32).tofile(file)

    assert all(check.has_failed for check in checks(folder).values())


def test_a_reader_that_drops_the_prefix_fails(make, monkeypatch):
    """A reader that drops the prefix of a group gives its suffixes other log-probabilities."""
    folder = make()
    read = causal._read_groups

    def forgetful(model: Any, groups: Any, *, is_alone: bool = False) -> Any:
        shorter = [causal.Group(group.prefix[-1:], group.suffixes) for group in groups]
        return read(model, shorter, is_alone=is_alone)

    monkeypatch.setattr(causal, "_read_groups", forgetful)

    found = checks(folder)
    assert found["packed"].verdict == "same"
    assert found["cache"].has_failed


def test_an_int8_reader_that_drops_the_prefix_fails_too(make, monkeypatch):
    folder = make("llama", Precision.INT8)
    read = causal._read_groups
    monkeypatch.setattr(
        causal,
        "_read_groups",
        lambda model, groups, is_alone=False: read(
            model, [causal.Group(group.prefix[-1:], group.suffixes) for group in groups], is_alone=is_alone
        ),
    )

    assert checks(folder)["cache"].has_failed


@pytest.mark.parametrize("has_past", [True, False])
def test_an_export_is_compared_with_itself_alone(tmp_path, has_past):
    found = checks(ModelFolder("exported", write_export(tmp_path / "exported", has_past=has_past)))

    assert (found["packed"].verdict, found["cache"].verdict) == ("same", "same")
    assert found["checkpoint"].verdict == "left out"
    assert "--against" in (found["checkpoint"].note or "")


@pytest.mark.parametrize(
    ("config", "lengths"),
    [
        ({}, [64]),
        ({"sliding_window": 16}, [16, 64]),
        ({"rope_scaling": {"original_max_position_embeddings": 8}, "sliding_window": 30}, [8, 30, 64]),
        ({"n_positions": 500, "window_size": 16, "alibi": True, "model_type": "falcon"}, [16, 80, 257, 321, 500]),
        ({"n_positions": 5000, "original_max_position_embeddings": 64}, [64, 128]),
    ],
)
def test_texts_exceed_every_limit_that_a_configuration_names(tmp_path, config, lengths, monkeypatch):
    """Limits that are too long to try are named in the report."""
    monkeypatch.setattr(causal, "_MAX_LENGTH", 600)
    model = open_causal_model(write_export(tmp_path / "exported"))
    made = CausalConfig.of({"n_positions": 64} | config, "config.json")
    model = dataclasses.replace(model, max_positions=made.max_position_embeddings)

    found, untried = causal._past_limits(documents(), model, made)

    assert [len(ids) for ids in found] == lengths
    assert untried == (
        "not tried, being longer than 600 tokens: n_positions = 5,000" if 5000 in config.values() else None
    )


def test_an_export_that_reads_pieces_differently_from_the_whole_fails(tmp_path, monkeypatch):
    """genai's graphs with longrope do so beyond the length where their factors change."""
    folder = Export(attention="grouped", rope=LongRope()).write(tmp_path / "exported")
    monkeypatch.setattr(exported_reader, "MAX_TOKENS", 16)
    ids = np.random.default_rng(1).integers(0, VOCAB, 90).tolist()

    def packed() -> VerifyCheck:
        return next(verify(ModelFolder("exported", folder), [ids], VerifiedCausal()))

    assert packed().verdict == "same"
    monkeypatch.setattr(departures, "_CHECKS", ())  # as if the departure had not been found
    assert packed().has_failed


def test_two_exports_are_compared_by_their_log_probabilities(tmp_path):
    one, other = (ModelFolder(name, write_export(tmp_path / name)) for name in ("one", "other"))

    check = checks(one, other=other)["model"]

    assert (check.verdict, check.worst, check.perplexity) == ("measured", 0.0, 0.0)


def test_models_of_different_tokenizers_are_not_compared(make):
    other = make(name="other")
    file = other.path / "tokenizer.json"
    file.write_text(file.read_text() + "\n")

    with pytest.raises(SpecError, match=r"one and other .*tokenizer\.json"):
        checks(make(name="one"), other=other)


def test_a_missing_checkpoint_is_skipped_with_the_reason(make, tmp_path):
    folder = make(precision=Precision.INT8)
    shutil.rmtree(tmp_path / "tiny-checkpoint")

    found = checks(folder)

    assert found.keys() == {"packed", "cache", "checkpoint"}
    assert found["checkpoint"].verdict == "left out"
    assert line_with(found["checkpoint"].note or "", "tiny-checkpoint", "this machine")


def test_the_reference_scales_positions_as_the_graph_does(make):
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}

    assert checks(make(rope_scaling=yarn))["checkpoint"].verdict == "same"


# --- the reference in numpy


def test_the_reference_reads_each_sequence_as_if_alone(tmp_path):
    checkpoint = Checkpoint.open(write_causal_checkpoint(tmp_path / "tiny", "qwen3"))
    reference = NumpyCausal(checkpoint.config, checkpoint.weights)
    sequences = [[5], [7, 8, 9], list(range(1, 60))]

    together = reference.log_probs(sequences)

    assert [len(found) for found in together] == [0, 2, 58]
    for ids, found in zip(sequences, together, strict=True):
        np.testing.assert_array_equal(found, reference.log_probs([ids])[0])
    np.testing.assert_allclose(
        together[2][:9], reference.log_probs([list(range(1, 11))])[0], atol=1e-5
    )  # no token attends to later ones


def test_the_reference_refuses_settings_that_no_graph_is_built_for(tmp_path):
    checkpoint = Checkpoint.open(write_causal_checkpoint(tmp_path / "tiny", "llama"))

    with pytest.raises(ModelError, match=r"hidden_act = mish; .*silu"):
        NumpyCausal({**checkpoint.config, "hidden_act": "mish"}, checkpoint.weights)
