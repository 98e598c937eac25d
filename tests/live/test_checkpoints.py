"""Checkpoints that transformers and torch write, compared with what kvjobs reads from them without either."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from bench.checkpoints.models import SHAPES, build
from jobs.errors import ModelError
from tests.causal_checkpoints import write_causal_checkpoint
from tests.checkpoints import write_marian_checkpoint, write_pickle
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.checkpoint.pickle_reader import read_pickle
from worker.models.checkpoint.tensor_files import StoredWeights

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]


def random_model(family: str) -> Any:
    """A model with untrained random weights; its output does not matter here."""
    torch.set_num_threads(1)
    return build(dataclasses.replace(SHAPES[family], lessons=0))


@pytest.mark.parametrize("target_vocab_size", [None, 60])
def test_random_checkpoints_of_the_tests_have_the_form_that_transformers_writes(
    tmp_path: Path, target_vocab_size: int | None
) -> None:
    folder = write_marian_checkpoint(tmp_path / "written", target_vocab_size=target_vocab_size)
    model, report = transformers.MarianMTModel.from_pretrained(folder, output_loading_info=True)
    model.save_pretrained(tmp_path / "saved")

    read, written = Checkpoint.open(folder), Checkpoint.open(tmp_path / "saved")

    assert not any(report.values())
    assert read.weights.keys() == written.weights.keys()
    for name, weight in written.weights.items():
        np.testing.assert_array_equal(read.weights[name], weight)
    assert read.config.items() >= {key: read.config[key] for key in written.config}.items()


@pytest.mark.parametrize("family", ["tiny-swish-tied", "tiny-relu-separate"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("max_shard_size", ["5GB", "8KB"])
def test_the_weights_read_equal_those_of_the_model(
    tmp_path: Path, family: str, dtype: str, max_shard_size: str
) -> None:
    model = random_model(family).to(getattr(torch, dtype))
    model.save_pretrained(tmp_path, max_shard_size=max_shard_size)

    checkpoint = Checkpoint.open(tmp_path)

    assert len(checkpoint.files) > 5 if max_shard_size == "8KB" else len(checkpoint.files) == 2
    expected = model.state_dict()
    for name, weight in checkpoint.weights.items():
        np.testing.assert_array_equal(weight, expected[name].float().numpy())


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_network_saved_without_its_tied_head_is_read_completely(tmp_path: Path, family: str) -> None:
    whole = write_causal_checkpoint(tmp_path / "whole", family)
    transformers.AutoModel.from_pretrained(whole).save_pretrained(tmp_path / "base")
    expected = Checkpoint.open(whole).weights

    base = Checkpoint.open(tmp_path / "base")

    assert base.config["architectures"] != Checkpoint.open(whole).config["architectures"]
    assert base.weights.keys() == expected.keys()
    for name, weight in base.weights.items():
        np.testing.assert_array_equal(weight, expected[name])


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_a_pickle_that_torch_wrote_is_read_without_it(tmp_path: Path, zipped: bool, dtype: str) -> None:
    model = random_model("tiny-swish-tied").to(getattr(torch, dtype))
    state = model.state_dict() | {
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "part": torch.arange(12.0)[5:9],
        "spread": torch.arange(24.0).reshape(2, 3, 4)[:, 1, ::2],
        "empty": torch.zeros(0, 4),
        "scalar": torch.tensor(2.5),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    torch.save(state, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)

    weights = StoredWeights(read_pickle(tmp_path / "pytorch_model.bin"))

    assert weights.keys() == state.keys()
    for name, tensor in state.items():
        assert weights[name].dtype == np.float32
        np.testing.assert_array_equal(weights[name], tensor.detach().float().numpy())


@pytest.mark.parametrize("zipped", [True, False])
def test_torch_can_read_the_pickles_of_the_tests(tmp_path: Path, zipped: bool) -> None:
    content = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones((2, 2), np.float16).T}
    write_pickle(tmp_path / "a.bin", content, zipped=zipped)

    read = torch.load(tmp_path / "a.bin", weights_only=True)

    assert {name: tensor.tolist() for name, tensor in read.items()} == {
        name: array.tolist() for name, array in content.items()
    }


class Program:
    """A pickle may contain any call; this one creates a folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.folder / "made"),)


@pytest.mark.parametrize("damage", ["cut", "noise", "program", "list", "model"])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_malicious_pickle_is_refused_with_one_sentence_and_not_run(tmp_path: Path, damage: str, zipped: bool) -> None:
    model = random_model("tiny-swish-tied")
    model.config.save_pretrained(tmp_path)
    file = tmp_path / "pytorch_model.bin"
    content = {"program": {"a": Program(tmp_path)}, "list": [torch.zeros(1)], "model": model}
    torch.save(content.get(damage, model.state_dict()), file, _use_new_zipfile_serialization=zipped)
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-5_000])
    if damage == "noise":
        file.write_bytes(b"\x93" * 5_000)

    with pytest.raises(ModelError, match=r"pytorch_model\.bin (is damaged, or torch did not|holds more than weights)"):
        Checkpoint.open(tmp_path)
    assert not (tmp_path / "made").exists()
