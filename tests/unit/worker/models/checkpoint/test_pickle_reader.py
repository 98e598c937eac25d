"""pytorch_model.bin without torch: what is read, and that no code in it is run."""

import os
import pickle
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import ModelError
from tests.checkpoints import write_pickle
from worker.models.checkpoint.pickle_reader import read_pickle
from worker.models.checkpoint.tensor_files import StoredWeights

CONTENT = {
    "half": np.array([1.5, -2.0, 65504.0], np.float16),
    "single": np.arange(6, dtype=np.float32).reshape(2, 3),
    "double": np.arange(4, dtype=np.float64).reshape(4, 1),
    "transposed": np.arange(6, dtype=np.float32).reshape(2, 3).T,
}


class Program:
    """A pickle may contain any call; this one creates a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder / "made"),)


@pytest.fixture(params=[True, False], ids=["zip", "before 1.6"])
def zipped(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def open_weights(file: Path) -> StoredWeights:
    return StoredWeights(read_pickle(file))


def test_every_tensor_is_read_as_float32(tmp_path, zipped):
    write_pickle(tmp_path / "a.bin", CONTENT, zipped=zipped)

    weights = open_weights(tmp_path / "a.bin")

    assert weights.keys() == CONTENT.keys()
    for name, weight in weights.items():
        assert weight.dtype == np.float32
        assert weight.flags.c_contiguous
        np.testing.assert_array_equal(weight, CONTENT[name].astype(np.float32))


def test_integers_beside_the_weights_are_refused_only_when_read(tmp_path, zipped):
    write_pickle(tmp_path / "a.bin", {"ids": np.arange(3), **CONTENT}, zipped=zipped)

    weights = open_weights(tmp_path / "a.bin")

    assert "ids" in weights
    assert weights["single"].sum() == 15
    with pytest.raises(ModelError, match=r"ids .*long.*F64"):
        weights["ids"]


def test_a_program_in_a_pickle_is_refused_by_name_and_does_not_run(tmp_path, zipped):
    write_pickle(tmp_path / "a.bin", {**CONTENT, "b": Program(tmp_path)}, zipped=zipped)

    with pytest.raises(ModelError, match=r"\((posix|nt)\.mkdir\).*model\.safetensors"):
        open_weights(tmp_path / "a.bin")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "program",
    [
        b"cbuiltins\neval\n.",
        b"cos\nsystem\n(S'touch made'\ntR.",
        b"ctorch\nload\n.",
        b"ctorch\nFloatStorage\n(I3\ntR.",  # called
        b"ctorch\nFloatStorage\n}S'name'\nS'x'\nsb.",  # given an attribute
        b"ctorch._utils\n_rebuild_tensor_v2\n(I0\nI0\n(t(ttR.",  # no storage argument
        b"]I1\na.",
        b"}S'a'\nI1\ns.",
    ],
)
def test_any_other_instruction_of_a_pickle_is_refused(tmp_path, program):
    with zipfile.ZipFile(tmp_path / "a.bin", "w") as archive:
        archive.writestr("archive/data.pkl", program)

    with pytest.raises(ModelError, match=r"a\.bin .*(more than weights|damaged)"):
        open_weights(tmp_path / "a.bin")


def test_an_archive_without_its_end_whose_header_is_text_is_damaged(tmp_path):
    """The time of 01:16 to 01:23 in the header of an archive holds a line break: then `PK...` is a whole opcode."""
    file = tmp_path / "a.bin"
    file.write_bytes(b"PK\x03\x04\x14\x00\x00\x00\x00\x00\x2f\x0a\x77\x5d rest")

    with pytest.raises(ModelError, match=r"a\.bin .*damaged"):
        list(read_pickle(file))


@pytest.mark.parametrize("kept", [0.0, 0.02, 0.5, 0.98])
def test_a_truncated_file_is_refused_with_one_sentence(tmp_path, zipped, kept):
    file = tmp_path / "a.bin"
    write_pickle(file, {"a": np.ones(1_000, np.float32)}, zipped=zipped)
    file.write_bytes(file.read_bytes()[: int(kept * file.stat().st_size)])

    with pytest.raises(ModelError, match=r"a\.bin .*damaged.*download"):
        open_weights(file)


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_file_is_either_read_or_refused_with_one_sentence(tmp_path, zipped, seed):
    file = tmp_path / "a.bin"
    write_pickle(file, CONTENT, zipped=zipped)
    content = bytearray(file.read_bytes())
    rng = np.random.default_rng(seed)
    for place in rng.integers(0, min(len(content), 800), 4):
        content[place] = rng.integers(0, 256)
    file.write_bytes(bytes(content))

    with suppress(ModelError):
        for weight in open_weights(file).values():
            assert weight.size < 10_000


def test_a_view_outside_its_storage_is_refused_with_one_sentence(tmp_path):
    write_pickle(tmp_path / "a.bin", {"a": np.ones((1, 3), np.float32)})
    with zipfile.ZipFile(tmp_path / "a.bin") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entries["archive/data.pkl"] = entries["archive/data.pkl"].replace(b"K\x01K\x03\x86", b"K\x02K\x03\x86")
    with zipfile.ZipFile(tmp_path / "a.bin", "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)

    with pytest.raises(ModelError, match=r"a .*larger.*storage"):
        open_weights(tmp_path / "a.bin")


def test_a_tensor_that_repeats_a_few_elements_10_to_the_12_times_is_refused(tmp_path, zipped):
    repeated = np.broadcast_to(np.ones(3, np.float32), (1 << 20, 1 << 20, 3))
    write_pickle(tmp_path / "a.bin", {"a": repeated}, zipped=zipped)
    assert (tmp_path / "a.bin").stat().st_size < 10_000

    with pytest.raises(ModelError, match=r"a .*larger.*storage"):
        open_weights(tmp_path / "a.bin")


def test_a_compressed_archive_is_refused_with_one_sentence(tmp_path):
    write_pickle(tmp_path / "a.bin", CONTENT)
    with zipfile.ZipFile(tmp_path / "a.bin") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(tmp_path / "a.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)

    with pytest.raises(ModelError, match="is compressed"):
        open_weights(tmp_path / "a.bin")


def test_a_pickle_that_torch_did_not_write_is_refused_with_one_sentence(tmp_path):
    (tmp_path / "a.bin").write_bytes(pickle.dumps({"a": [1, 2, 3]}, 2))

    with pytest.raises(ModelError, match="magic number"):
        open_weights(tmp_path / "a.bin")
