"""A model folder gets its name only when it is complete, even if the process dies before."""

import errno
import os
from pathlib import Path

import pytest

from jobs.errors import KvjobsError, SpecError
from worker.model_tools.add import staging as module
from worker.model_tools.add.staging import staging, sweep


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    return tmp_path / "models"


def make(models_dir: Path, name: str, content: str, *, force: bool = False) -> Path:
    with staging(models_dir) as stage:
        (stage.path / "onnx").mkdir()
        (stage.path / "onnx" / "graph").write_text(content)
        return stage.publish(name, force=force)


def content_of(models_dir: Path, name: str) -> str:
    return (models_dir / name / "onnx" / "graph").read_text()


def test_publishing_leaves_only_the_published_folder(models_dir):
    assert make(models_dir, "opus", "one") == models_dir / "opus"

    assert content_of(models_dir, "opus") == "one"
    assert os.listdir(models_dir) == ["opus"]
    assert (models_dir / "opus").stat().st_mode & 0o777 == 0o777 & ~umask()


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_failure_on_the_way_leaves_nothing_behind(models_dir):
    class Failure(Exception):
        pass

    def fail():
        with staging(models_dir) as stage:
            (stage.path / "config.json").write_text("half")
            raise Failure

    with pytest.raises(Failure):
        fail()

    assert os.listdir(models_dir) == []


def test_a_name_that_is_taken_is_refused_and_its_folder_unchanged(models_dir):
    make(models_dir, "opus", "one")

    with pytest.raises(SpecError, match=r"already .*opus .*--name.*--force"):
        make(models_dir, "opus", "two")

    assert content_of(models_dir, "opus") == "one"
    assert os.listdir(models_dir) == ["opus"]


@pytest.mark.parametrize("exchange", [True, False])
def test_force_replaces_a_model(models_dir, exchange, monkeypatch):
    if not exchange:  # as on a file system without renameat2(RENAME_EXCHANGE)
        monkeypatch.setattr(module, "_exchange", lambda one, other: False)
    make(models_dir, "opus", "one")

    make(models_dir, "opus", "two", force=True)

    assert content_of(models_dir, "opus") == "two"
    assert os.listdir(models_dir) == ["opus"]


def test_force_with_a_new_name_publishes_as_usual(models_dir):
    make(models_dir, "opus", "one", force=True)

    assert content_of(models_dir, "opus") == "one"


def test_replacing_a_link_leaves_its_target_unchanged(models_dir, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    models_dir.mkdir()
    (models_dir / "opus").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(SpecError, match="already a model"):
        make(models_dir, "opus", "one")
    make(models_dir, "opus", "one", force=True)

    assert content_of(models_dir, "opus") == "one"
    assert (tmp_path / "elsewhere" / "kept").exists()


def test_a_model_that_a_killed_process_had_moved_aside_is_restored(models_dir):
    make(models_dir, "opus", "one")
    root = models_dir / ".adding-killed"
    (root / "replaced").mkdir(parents=True)
    (root / "lock").touch()
    (models_dir / "opus").rename(root / "replaced" / "opus")

    sweep(models_dir)

    assert content_of(models_dir, "opus") == "one"
    assert os.listdir(models_dir) == ["opus"]


def test_a_recent_folder_without_a_lock_is_left_alone(models_dir):
    young, old = models_dir / ".adding-young", models_dir / ".adding-old"
    young.mkdir(parents=True)
    old.mkdir()
    os.utime(old, (0, 0))

    sweep(models_dir)

    assert os.listdir(models_dir) == [".adding-young"]


def test_a_full_disk_is_reported_with_one_sentence(models_dir):
    with pytest.raises(KvjobsError, match=r"/models .*full .*KVJOBS_MODELS_DIR"), staging(models_dir):
        raise OSError(errno.ENOSPC, "No space left on device")

    assert os.listdir(models_dir) == []


def test_an_impossible_models_folder_is_reported_with_one_sentence(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(KvjobsError, match=r"nothing .*models folder"), staging(tmp_path / "file"):
        pass
