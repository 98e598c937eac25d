"""`models verify` of translation models: correct models pass and wrong ones fail. The reference is in numpy."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import SpecError
from tests.checkpoints import write_marian_checkpoint, write_tokenizer
from tests.messages import line_with
from tests.places import GOLDEN
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.add.target_ids import HeadChoice
from worker.model_tools.origin import find_checkpoint
from worker.model_tools.verify import seq2seq
from worker.model_tools.verify.checks import VerifyCheck
from worker.model_tools.verify.numpy_seq2seq import NumpySeq2Seq
from worker.model_tools.verify.seq2seq import VerifiedSeq2Seq
from worker.model_tools.verify.verify import verify
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder

TINY = GOLDEN / "tiny-swish-tied"

Make = Callable[..., ModelFolder]


@pytest.fixture(autouse=True)
def in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seq2seq, "open_seq2seq_reference", NumpySeq2Seq.open)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A function that adds a model from a random checkpoint."""

    def call(precision: Precision = Precision.FP32, name: str = "tiny", **shape: Any) -> ModelFolder:
        checkpoint = write_marian_checkpoint(tmp_path / f"{name}-checkpoint", **shape)
        # A random model may generate any id, so that a smaller head would change the result.
        request = Request(source=str(checkpoint), precision=precision, head=HeadChoice.FULL, name=name)
        added = add_model(request, tmp_path / "models")
        return ModelFolder(name, Path(added.path))

    return call


@pytest.fixture
def export(tmp_path: Path) -> ModelFolder:
    folder = shutil.copytree(TINY, tmp_path / "exported")
    config = json.loads((folder / "config.json").read_text())
    write_tokenizer(folder, config["vocab_size"], eos_id=config["eos_token_id"], pad_id=config["pad_token_id"])
    return ModelFolder("exported", folder)


def sources(count: int = 10, vocab_size: int = 60) -> list[list[int]]:
    rng = np.random.default_rng(3)
    return [[*rng.integers(2, vocab_size, rng.integers(1, 12)).tolist(), 0] for _ in range(count)]


def checks(folder: ModelFolder, **options: Any) -> dict[str, VerifyCheck]:
    return {check.name: check for check in verify(folder, sources(), VerifiedSeq2Seq(), **options)}


@pytest.mark.parametrize("shape", [{}, {"activation": "relu", "width": 24, "heads": 3}, {"target_vocab_size": 61}])
def test_graphs_in_fp32_equal_their_checkpoint(make, shape):
    found = checks(make(**shape))

    assert found.keys() == {"slots", "checkpoint"}
    assert found["slots"].verdict == "same"
    assert found["checkpoint"].verdict == "same"
    assert (found["checkpoint"].exact, found["checkpoint"].tokens) == (1.0, 1.0)
    assert (found["checkpoint"].drift or 0.0) < 1e-5
    assert not any(check.has_failed for check in found.values())


def test_the_difference_of_int8_is_measured(make):
    found = checks(make(Precision.INT8))

    assert {name: check.verdict for name, check in found.items()} == {
        "slots": "same",
        "checkpoint": "measured",
        "precision": "measured",
    }
    for name in ("checkpoint", "precision"):
        check = found[name]
        assert 0.5 < (check.tokens or 0.0) <= 1.0
        assert 0.0 < (check.drift or 0.0) < 0.5
    precision = found["precision"]
    assert precision.num_segments == 10
    assert 0.0 < (precision.drift or 0.0) < (precision.worst or 0.0)
    assert 0.0 < abs(precision.perplexity or 0.0) < 0.5


def test_a_model_that_differs_from_its_checkpoint_fails(make):
    folder = make()
    decoder = folder.path / "weights.data"
    content = np.fromfile(decoder, np.float32)
    content[: len(content) // 2] *= 1.1
    content.tofile(decoder)

    found = checks(folder)

    assert found["slots"].verdict == "same"  # it is consistent with itself, but wrong
    assert found["checkpoint"].verdict == "differs"
    assert found["checkpoint"].has_failed


def test_a_model_that_computes_nan_fails(make):
    folder = make()
    np.full((folder.path / "weights.data").stat().st_size // 4, np.nan, np.float32).tofile(folder.path / "weights.data")

    assert all(check.has_failed for check in checks(folder).values())


def test_an_export_with_the_cache_is_compared_with_itself_without_it(export):
    found = checks(export)

    assert found["cache"].verdict == "same"
    assert found["checkpoint"].verdict == "left out"
    assert "--against" in (found["checkpoint"].note or "")


def test_without_a_cache_there_is_nothing_to_compare(export):
    for name in ("decoder_model_merged.onnx", "decoder_with_past_model.onnx"):
        (export.path / name).unlink()

    assert checks(export).keys() == {"checkpoint"}


def test_two_models_are_compared_by_their_translations(make):
    found = checks(make(Precision.INT8, "one"), other=make(Precision.FP32, "other"))

    assert found["model"].against == "other"
    assert found["model"].verdict == "measured"
    assert dataclasses.replace(found["model"], name="precision", against="fp32") == found["precision"]


def test_models_of_different_vocabularies_are_not_compared(make):
    with pytest.raises(SpecError, match=r"one and other .*vocab\.json"):
        checks(make(name="one"), other=make(name="other", vocab_size=80))


# --- where the checkpoint is
def test_a_missing_checkpoint_is_skipped_with_the_reason(make, tmp_path):
    folder = make()
    shutil.rmtree(tmp_path / "tiny-checkpoint")

    check = checks(folder)["checkpoint"]

    assert check.verdict == "left out"
    assert line_with(check.note or "", "tiny-checkpoint", "this machine")


def test_a_changed_checkpoint_is_skipped_with_the_reason(make, tmp_path):
    folder = make()
    write_marian_checkpoint(tmp_path / "tiny-checkpoint", seed=1)

    check = checks(folder)["checkpoint"]

    assert check.verdict == "left out"
    assert line_with(check.note or "", "model.safetensors", "changed")


def test_a_checkpoint_of_the_hub_is_searched_in_the_local_cache(make, monkeypatch):
    folder = make()
    manifest = Manifest.read(folder.path)
    asked = []

    def look_up(model_id: str, name: str, revision: str) -> str:
        asked.append((model_id, name, revision))
        return str(Path(manifest.source) / name)

    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", look_up)
    of_hub = dataclasses.replace(manifest, source="OWNER/NAME", revision="0123")

    assert find_checkpoint(of_hub) == (Path(manifest.source), "")
    assert asked == [("OWNER/NAME", "config.json", "0123")]


def test_a_target_head_is_compared_over_the_ids_that_it_keeps(make, tmp_path):
    checkpoint = write_marian_checkpoint(tmp_path / "checkpoint")
    request = Request(source=str(checkpoint), head=HeadChoice.TARGET, name="target")
    folder = ModelFolder("target", Path(add_model(request, tmp_path / "models").path))

    assert checks(folder)["checkpoint"].verdict == "same"
