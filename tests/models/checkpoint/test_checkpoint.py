"""What is read from a checkpoint folder, and the message about one that cannot be read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import ModelError
from tests.checkpoints import random_weights, write_marian_checkpoint, write_pickle, write_weights
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.contents.present_files import has_weights
from worker.models.model_kind import ModelKind

SIZES = {"width": 16, "layers": 2, "ffn": 32, "vocab_size": 72}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_marian_checkpoint(tmp_path / "tiny")


def change_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("shards", [1, 3])
def test_every_weight_is_read_as_it_was_written(tmp_path, shards):
    folder = write_marian_checkpoint(tmp_path / "tiny", shards=shards)
    expected = random_weights(**SIZES, target_vocab_size=None, pad_id=71, seed=0)

    checkpoint = Checkpoint.open(folder)

    assert checkpoint.weights.keys() == expected.keys()
    for name, weight in checkpoint.weights.items():
        assert weight.dtype == np.float32
        np.testing.assert_array_equal(weight, expected[name])
    assert checkpoint.config["d_model"] == 16


def test_the_listed_files_of_a_checkpoint_are_those_that_are_read(tmp_path):
    shards = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    folder = write_marian_checkpoint(tmp_path / "tiny", shards=2)

    assert Checkpoint.open(folder).files == ("config.json", "model.safetensors.index.json", *shards)

    write_marian_checkpoint(folder)  # transformers too prefers a single file to shards
    assert Checkpoint.open(folder).files == ("config.json", "model.safetensors")


@pytest.mark.parametrize(("dtype", "error"), [("F16", 2**-11), ("BF16", 2**-8)])
def test_half_precision_is_read_as_float32(tmp_path, dtype, error):
    expected = random_weights(**SIZES, target_vocab_size=None, pad_id=71, seed=0)

    read = Checkpoint.open(write_marian_checkpoint(tmp_path / "tiny", dtype=dtype)).weights

    for name, weight in expected.items():
        assert read[name].dtype == np.float32
        np.testing.assert_allclose(read[name], weight, rtol=error, atol=1e-7)


def test_bf16_keeps_every_bit(folder):
    exact = {
        "final_logits_bias": np.array([[1.0, -2.5, 0.0], [np.inf, -np.inf, 2.0**-130]], np.float32)
    }  # bf16 can represent all of them
    write_weights(folder, exact, dtype="BF16", shards=1)

    np.testing.assert_array_equal(Checkpoint.open(folder).weights["final_logits_bias"], exact["final_logits_bias"])


def test_only_one_weight_is_in_memory_at_a_time(tmp_path):
    import tracemalloc

    folder = write_marian_checkpoint(tmp_path / "wide", width=256, ffn=1024, vocab_size=800)
    largest = max(weight.nbytes for weight in Checkpoint.open(folder).weights.values())
    tracemalloc.start()
    try:
        for weight in Checkpoint.open(folder).weights.values():
            assert weight.size
        assert tracemalloc.get_traced_memory()[1] < 3 * largest
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"architectures": ["ProphetNetForConditionalGeneration"]}, "ProphetNetForConditionalGeneration"),
        ({"architectures": ["MarianForCausalLM"]}, "MarianForCausalLM"),
        ({"architectures": ["MptForCausalLM"]}, "MptForCausalLM"),
        ({"architectures": None, "model_type": "mpt"}, "mpt"),
        ({"architectures": [], "model_type": None}, r"\(config.json names none\)"),
    ],
)
def test_another_architecture_is_refused_by_name(folder, changes, named):
    change_config(folder, **changes)

    with pytest.raises(ModelError, match=rf"/tiny .*{named};.*MarianMTModel,.*Llama.*FalconForCausalLM"):
        Checkpoint.open(folder)


def test_an_old_configuration_without_architectures_is_recognized_by_its_model_type(folder):
    change_config(folder, architectures=None)

    checkpoint = Checkpoint.open(folder)
    assert (checkpoint.architecture, checkpoint.kind) == ("marian", ModelKind.TRANSLATION)


@pytest.mark.parametrize("cut", [3, 100, 20_000])
def test_a_truncated_file_is_refused_with_one_sentence(folder, cut):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-cut] if cut == 20_000 else file.read_bytes()[:cut])

    with pytest.raises(ModelError, match=r"model\.safetensors .*damaged.*\(.+\).*download"):
        Checkpoint.open(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a Git LFS pointer")],
)
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_an_empty_file_or_lfs_pointer_is_refused_with_one_sentence(folder, name, content, message):
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(content)

    with pytest.raises(ModelError, match=f"{name} {message}"):
        Checkpoint.open(folder)


def test_a_quantized_weight_is_refused_when_it_is_read(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes().replace(b'"F32"', b'"I32"'))

    with pytest.raises(ModelError, match=r"final_logits_bias .*I32.*F64, F32, F16, BF16"):
        Checkpoint.open(folder).weights["final_logits_bias"]


def test_a_missing_shard_is_named(tmp_path):
    folder = write_marian_checkpoint(tmp_path / "tiny", shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()

    with pytest.raises(ModelError, match=r"model-00002-of-00003\.safetensors .*missing.*index\.json"):
        Checkpoint.open(folder)


@pytest.mark.parametrize(
    ("index", "message"),
    [({}, "no weight_map"), ({"weight_map": {"a": "../../etc/passwd"}}, "'../../etc/passwd', which is not beside it")],
)
def test_an_invalid_index_is_refused_with_one_sentence(tmp_path, index, message):
    folder = write_marian_checkpoint(tmp_path / "tiny", shards=2)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    with pytest.raises(ModelError, match=message):
        Checkpoint.open(folder)


def test_a_folder_without_weights_is_refused_with_the_files_it_needs(folder):
    (folder / "model.safetensors").rename(folder / "tf_model.h5")

    assert not has_weights(folder)
    with pytest.raises(ModelError, match=r"no weights .*tf_model\.h5"):
        Checkpoint.open(folder)


def test_pickles_are_read_by_their_index(folder):
    """NLLB-200-3.3B is published so."""
    expected = dict(Checkpoint.open(folder).weights)
    (folder / "model.safetensors").unlink()
    shards = {f"pytorch_model-0000{number}-of-00002.bin": list(expected)[number - 1 :: 2] for number in (1, 2)}
    for shard, names in shards.items():
        write_pickle(folder / shard, {name: expected[name] for name in names})
    index = {"weight_map": {name: shard for shard, names in shards.items() for name in names}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))

    checkpoint = Checkpoint.open(folder)

    assert has_weights(folder)
    assert checkpoint.files == ("config.json", "pytorch_model.bin.index.json", *shards)
    assert checkpoint.weights.keys() == expected.keys()
    for name, weight in checkpoint.weights.items():
        np.testing.assert_array_equal(weight, expected[name])


def test_a_pickle_is_read_if_there_is_no_safetensors_file(folder):
    expected = dict(Checkpoint.open(folder).weights)
    write_pickle(folder / "pytorch_model.bin", expected)
    assert Checkpoint.open(folder).files == ("config.json", "model.safetensors")

    (folder / "model.safetensors").unlink()

    checkpoint = Checkpoint.open(folder)
    assert checkpoint.files == ("config.json", "pytorch_model.bin")
    assert checkpoint.weights.keys() == expected.keys()
    for name, weight in checkpoint.weights.items():
        np.testing.assert_array_equal(weight, expected[name])


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    one, other = write_marian_checkpoint(tmp_path / "one"), write_marian_checkpoint(tmp_path / "other")

    assert {file.name: file.read_bytes() for file in one.iterdir()} == {
        file.name: file.read_bytes() for file in other.iterdir()
    }
