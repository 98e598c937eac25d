"""Checkpoints as transformers and torch write them, against what is read from them without either."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from bench.models import SHAPES, build  # noqa: E402 - torch may be missing
from jobs.errors import ModelError  # noqa: E402 - torch may be missing
from tests.checkpoints import write_marian_checkpoint  # noqa: E402 - torch may be missing
from worker.models.checkpoint import Checkpoint  # noqa: E402 - torch may be missing

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]


def untaught(family: str) -> Any:
    """A model whose weights are as they were drawn: here nobody asks what it says."""
    torch.set_num_threads(1)
    return build(dataclasses.replace(SHAPES[family], lessons=0))


@pytest.mark.parametrize("target_vocab_size", [None, 60])
def test_our_random_checkpoints_are_such_as_transformers_writes(tmp_path: Path, target_vocab_size: int | None) -> None:
    ours = write_marian_checkpoint(tmp_path / "ours", target_vocab_size=target_vocab_size)
    model, report = transformers.MarianMTModel.from_pretrained(ours, output_loading_info=True)
    model.save_pretrained(tmp_path / "theirs")

    read, written = Checkpoint.open(ours), Checkpoint.open(tmp_path / "theirs")

    assert not any(report.values())
    assert read.weights.keys() == written.weights.keys()
    for name, weight in written.weights.items():
        np.testing.assert_array_equal(read.weights[name], weight)
    assert read.config.items() >= {key: read.config[key] for key in written.config}.items()


@pytest.mark.parametrize("family", ["tiny-swish-tied", "tiny-relu-separate"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("max_shard_size", ["5GB", "8KB"])
def test_weights_are_those_of_the_model(tmp_path: Path, family: str, dtype: str, max_shard_size: str) -> None:
    model = untaught(family).to(getattr(torch, dtype))
    model.save_pretrained(tmp_path, max_shard_size=max_shard_size)

    checkpoint = Checkpoint.open(tmp_path)

    assert len(checkpoint.files) > 5 if max_shard_size == "8KB" else len(checkpoint.files) == 2
    expected = model.state_dict()
    for name, weight in checkpoint.weights.items():
        np.testing.assert_array_equal(weight, expected[name].float().numpy())


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_says_what_safetensors_say(tmp_path: Path, zipped: bool) -> None:
    model = untaught("tiny-swish-tied").half()
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)

    weights = Checkpoint.open(tmp_path).weights

    assert weights.keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert weights[name].dtype == np.float32
        np.testing.assert_array_equal(weights[name], tensor.float().numpy())


class Program:
    """What a pickle may hold: a call of anything."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.folder / "made"),)


@pytest.mark.parametrize("damage", ["cut", "noise", "program", "list"])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_bad_pickle_is_a_sentence_and_runs_nothing(tmp_path: Path, damage: str, zipped: bool) -> None:
    model = untaught("tiny-swish-tied")
    model.config.save_pretrained(tmp_path)
    file = tmp_path / "pytorch_model.bin"
    content = {"program": {"a": Program(tmp_path)}, "list": [torch.zeros(1)]}.get(damage, model.state_dict())
    torch.save(content, file, _use_new_zipfile_serialization=zipped)
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-5_000])
    if damage == "noise":
        file.write_bytes(b"\x93" * 5_000)

    with pytest.raises(ModelError, match=r"pytorch_model\.bin (is damaged, or holds more|holds no weights)"):
        Checkpoint.open(tmp_path)
    assert not (tmp_path / "made").exists()
