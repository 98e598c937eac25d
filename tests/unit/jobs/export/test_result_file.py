"""The result file is complete or absent, never overwrites another file, and may be any path that a shell can name."""

import fcntl
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

import pytest

from jobs.errors import SpecError, StoreError
from jobs.export.result_file import check_result_path, result_file

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to somebody else")


def write(path: Path, data: bytes = b"results") -> None:
    with result_file(path, corpus="") as file:
        file.write(data)


def test_a_link_planted_under_the_temporary_name_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    monkeypatch.setattr(secrets, "token_hex", lambda _size: "guessed")
    link = tmp_path / ".kvjobs-guessed.part"
    link.symlink_to(precious)

    with pytest.raises(StoreError, match="File exists"):
        write(tmp_path / "out.jsonl")

    assert precious.read_text() == "precious"
    assert link.is_symlink()


def test_each_export_uses_a_new_temporary_name(tmp_path: Path) -> None:
    names = set()
    for _ in range(2):
        with result_file(tmp_path / "out.jsonl", corpus=""):
            names |= {path.name for path in tmp_path.glob(".*.part")}

    assert len(names) == 2
    assert os.listdir(tmp_path) == ["out.jsonl"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_a_result_file_has_the_permissions_of_any_new_file(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write(tmp_path / "out.jsonl")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "out.jsonl").stat().st_mode) == mode


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("before")
    path.chmod(mode)

    with result_file(path, corpus="") as file:
        (part,) = tmp_path.glob(".*.part")
        assert stat.S_IMODE(part.stat().st_mode) == 0o600, "nor can others read what is half written"
        file.write(b"results")

    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"results", mode)


@pytest.mark.may_skip
@AS_ROOT
def test_a_file_that_root_replaces_stays_that_of_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("before")
    os.chown(path, 1234, 5678)

    write(path)

    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 5678)


@pytest.mark.may_skip
@AS_ROOT
def test_a_group_that_cannot_be_given_gets_no_more_than_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    path = tmp_path / "out.jsonl"
    path.write_text("before")
    path.chmod(0o664)
    os.chown(path, -1, 5678)
    monkeypatch.setattr(os, "fchown", refuse)

    write(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_what_a_killed_export_left_is_removed_by_the_next_and_what_is_written_stays(tmp_path: Path) -> None:
    left = tmp_path / ".kvjobs-0123456789abcdef.part"
    left.write_text("half")
    others = [tmp_path / name for name in (".kvjobs-notes.part", ".kvjobs-0123456789abcdef.part.txt", "my.part")]
    for other in others:
        other.write_text("somebody's own")
    (tmp_path / ".kvjobs-00000000000000ff.part").symlink_to(others[0])
    os.mkfifo(tmp_path / ".kvjobs-00000000000000fe.part")

    with result_file(tmp_path / "one.jsonl", corpus="") as running:
        assert not left.exists()
        write(tmp_path / "two.jsonl")
        running.write(b"results")

    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes() == b"results"
    assert all(other.read_text() == "somebody's own" for other in others)


def test_an_export_whose_file_another_removes_before_its_lock_takes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    removed: list[Path] = []

    def remove_first(file: BinaryIO, how: int) -> None:
        if not removed:
            removed.extend(tmp_path.glob(".*.part"))
            removed[0].unlink()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    write(tmp_path / "out.jsonl")

    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_a_full_disk_leaves_the_old_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("before")

    def fail_half_way() -> None:
        with result_file(path, corpus="") as file:
            file.write(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(StoreError, match="No space left on device"):
        fail_half_way()

    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["out.jsonl"]


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_a_file_descriptor_that_is_already_open_is_written_at_its_current_position(tmp_path: Path, folder: str) -> None:
    reader, writer = os.pipe()
    write(Path(f"{folder}/{writer}"))
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert file.read() == b"results"

    with (tmp_path / "log").open("ab") as log:  # what a shell does for `>> log`
        log.write(b"before ")
        log.flush()
        write(Path(f"{folder}/{log.fileno()}"))
    assert (tmp_path / "log").read_bytes() == b"before results"
    with (tmp_path / "log").open("rb") as log, pytest.raises(SpecError, match="not open"):
        check_result_path(Path(f"{folder}/{log.fileno()}"), corpus="")
    with pytest.raises(SpecError, match=r"/dev/fd/999999 .*not open"):
        write(Path("/dev/fd/999999"))


def test_a_device_that_refuses_to_be_written_is_named_in_the_error() -> None:
    with pytest.raises(StoreError, match=r"/dev/full .*No space"):
        write(Path("/dev/full"))
