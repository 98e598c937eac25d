"""Whether the models that come with kvjobs are whole."""

import os
from pathlib import Path

import pytest

from jobs.errors import ModelError
from worker import installation as module
from worker.installation import REASON, Installation, InstallationBroken

ERROR = ModelError("there is no model")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a model that was installed long ago."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"weights")
    monkeypatch.setattr(module, "SETTLED_S", -1.0)
    return folder


def test_an_error_where_all_files_are_there_is_no_fault_of_the_installation(model: Path) -> None:
    assert Installation([model]).check(ERROR) is None


def test_a_missing_file_is_waited_for_and_then_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installation = Installation([model])
    (model / "model.onnx").unlink()
    with pytest.raises(InstallationBroken, match=r"model\.onnx is missing"):
        installation.check(ERROR)

    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    reason = installation.check(ERROR)

    assert reason is not None
    assert reason.startswith(REASON)
    assert "model.onnx" in reason
    assert not installation.is_whole()
    (model / "model.onnx").write_bytes(b"weights")
    assert installation.is_whole()


def test_a_folder_that_was_missing_from_the_start_is_waited_for_too(tmp_path: Path) -> None:
    with pytest.raises(InstallationBroken):
        Installation([tmp_path / "model"]).check(ERROR)


def test_a_file_that_was_just_written_may_be_half_written(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLED_S", 10.0)
    monkeypatch.setattr(module.time, "time", lambda: os.stat(model / "model.onnx").st_ctime + 5)
    assert "just written" in (Installation([model]).problem() or "")

    monkeypatch.setattr(module.time, "time", lambda: os.stat(model / "model.onnx").st_ctime + 15)
    assert Installation([model]).is_whole()
