"""Revision and file stamps of a model folder: which files they cover, and which changes they detect."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.model_folders import CAUSAL_EXPORT, COMPLETE, TOKENIZER, make_model
from worker.models.model_folder import ModelFolder


def test_a_copy_has_the_revision_of_the_original(tmp_path):
    assert revision(make_model(tmp_path / "a")) == revision(make_model(tmp_path / "elsewhere" / "b"))


@pytest.mark.parametrize(
    "name",
    [
        "encoder_model.onnx",
        "encoder_model.onnx_data",
        "encoder_model.onnx.data",
        "weights.data",
        "kvjobs.json",
        "config.json",
        "source.spm",
    ],
)
def test_every_file_that_affects_results_is_in_the_revision(tmp_path, name):
    more = ["encoder_model.onnx_data", "encoder_model.onnx.data", "weights.data", "kvjobs.json"]
    before = make_model(tmp_path / "m", [*COMPLETE, *more])
    first = revision(before)

    (before / name).write_text("another")
    second = revision(before)
    (before / name).unlink()

    assert len({first, second, revision(before)}) == 3


def test_graphs_in_their_own_folder_are_in_the_revision(tmp_path):
    folder = make_model(tmp_path / "m", ["config.json", *TOKENIZER])
    make_model(folder / "onnx", ["encoder_model.onnx"])
    first = revision(folder)

    (folder / "onnx" / "encoder_model.onnx").write_text("another")

    assert revision(folder) != first


def test_files_that_do_not_affect_results_are_not_in_the_revision(tmp_path):
    folder = make_model(tmp_path / "m")
    first = revision(folder)

    for name in ("README.md", ".gitattributes", "LICENSE", "model.safetensors", ".hidden.json"):
        (folder / name).write_text(name)
    make_model(folder / "checkpoint-100", ["config.json"])

    assert revision(folder) == first


@pytest.mark.parametrize("contents", [{"a.json": "x", "b.json": "yz"}, {"a.json": "xyb.json\0z"}])
def test_moving_bytes_from_file_to_file_changes_the_revision(tmp_path, contents):
    one, other = make_model(tmp_path / "one", []), make_model(tmp_path / "other", [])
    (one / "a.json").write_text("xy")
    (one / "b.json").write_text("z")
    for name, content in contents.items():
        (other / name).write_text(content)

    assert revision(one) != revision(other)


def revision(folder: Path) -> str:
    return ModelFolder("m", folder).revision()


@pytest.mark.parametrize("name", ["tokenizer.json", "model.onnx_data", "model.onnx"])
def test_every_file_that_affects_the_results_of_a_causal_export_is_in_its_revision(tmp_path, name):
    folder = make_model(tmp_path / "m", [*CAUSAL_EXPORT, "model.onnx_data"])
    first = revision(folder)

    (folder / name).write_text("another")

    assert revision(folder) != first


def overwrite_with_the_old_time(file: Path) -> None:
    before = file.stat()
    file.write_text(file.read_text().swapcase())
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_by_another(file: Path) -> None:
    new = file.with_name(".new")
    shutil.copy2(file, new)
    new.replace(file)


@pytest.mark.parametrize("change", [overwrite_with_the_old_time, replace_by_another, Path.unlink])
def test_stamps_change_if_a_file_is_overwritten_replaced_or_removed(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    folder = ModelFolder("a", make_model(tmp_path / "a"))
    before = folder.stamps()
    assert folder.stamps() == before

    change(tmp_path / "a" / "encoder_model.onnx")

    after = folder.stamps()
    assert {name for name in before if before[name] != after.get(name)} == {"encoder_model.onnx"}
