"""Submitted data is stored so that only its owner can read it."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.system.private import make_file, make_folder


@pytest.fixture(params=[0o000, 0o022, 0o777], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_new_folders_are_private_under_any_umask_and_existing_ones_keep_their_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    make_folder(tmp_path / "a" / "b")

    assert [mode(tmp_path), mode(tmp_path / "a"), mode(tmp_path / "a" / "b")] == [0o755, 0o700, 0o700]

    (tmp_path / "a").chmod(0o755)
    make_folder(tmp_path / "a")
    assert mode(tmp_path / "a") == 0o755


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    make_file(tmp_path / "file")

    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "file" / "inner")


def test_a_new_file_is_private_and_an_existing_one_keeps_its_mode(tmp_path: Path) -> None:
    make_file(tmp_path / "new")
    assert mode(tmp_path / "new") == 0o600

    (tmp_path / "new").write_text("content")
    (tmp_path / "new").chmod(0o640)
    make_file(tmp_path / "new")
    assert (mode(tmp_path / "new"), (tmp_path / "new").read_text()) == (0o640, "content")
