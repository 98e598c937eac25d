"""Which file system a folder is on, read from texts in the format of /proc/self/mountinfo."""

from pathlib import Path, PurePosixPath

import pytest

from jobs.errors import StoreError
from jobs.store.connection import sqlite_engine
from jobs.store.connection.mounts import Mount, find_mount, mount_of, parse_mounts
from jobs.store.database import Database

ROOT = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw"


def kind(folder: str, *lines: str) -> str:
    mount = find_mount(PurePosixPath(folder), parse_mounts("\n".join((ROOT, *lines)) + "\n"))
    return mount.kind if mount else ""


@pytest.mark.parametrize(
    "name",
    [
        *("nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "glusterfs", "lustre", "beegfs", "davfs"),
        *("fuse.glusterfs", "fuse.ceph-fuse", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.juicefs"),
    ],
)
def test_network_file_systems_are_recognized(name: str) -> None:
    assert Mount(2, 1, PurePosixPath("/data"), name).is_network


@pytest.mark.parametrize(
    "name", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "fuseblk", "fuse.mergerfs", "fuse.gocryptfs", "fuse", "zfs"]
)
def test_local_file_systems_are_not_taken_for_network_file_systems(name: str) -> None:
    assert not Mount(2, 1, PurePosixPath("/data"), name).is_network


def test_the_deepest_mount_counts() -> None:
    home = "30 22 0:40 / /home rw - nfs4 server:/home rw"
    own = "31 30 8:2 / /home/me/fast rw - ext4 /dev/sdb1 rw"

    assert kind("/home/me", home, own) == "nfs4"
    assert kind("/home/me/fast/kvjobs", home, own) == "ext4"
    assert kind("/home2", home, own) == "ext4"  # /home2 is not below /home


def test_a_path_with_a_space_is_found() -> None:
    shared = r"30 22 0:40 / /mnt/team\040share rw,relatime shared:7 - nfs4 server:/team rw"
    odd = r"31 22 0:41 / /mnt/a\134b\011c rw - fuse.glusterfs server:/v rw"

    assert kind("/mnt/team share/home", shared, odd) == "nfs4"
    assert kind("/mnt/a\\b\tc", shared, odd) == "fuse.glusterfs"
    assert kind("/mnt/team", shared, odd) == "ext4"


def test_of_two_mounts_on_one_folder_the_later_one_counts() -> None:
    automount = "30 22 0:40 / /net rw - autofs systemd-1 rw"
    over_it = "31 30 0:41 / /net rw - nfs4 server:/net rw"

    assert kind("/net/home", automount, over_it) == "nfs4"
    assert kind("/net/home", over_it, automount) == "nfs4"  # whatever the order of the lines


def test_a_mount_that_is_hidden_by_another_does_not_count() -> None:
    hidden = "30 22 0:40 / /data/old rw - nfs4 server:/old rw"
    later = "31 22 8:2 / /data rw - ext4 /dev/sdb1 rw"

    assert kind("/data/old", hidden, later) == "ext4"


def test_lines_with_and_without_optional_fields_are_read() -> None:
    bare = "30 22 0:40 / /a rw - nfs4 server:/a rw"
    many = "31 22 0:41 / /b rw shared:1 master:2 propagate_from:3 - virtiofs tag rw"

    assert (kind("/a", bare, many), kind("/b", bare, many)) == ("nfs4", "virtiofs")
    assert parse_mounts("nonsense\n\n") == []


def test_mounts_are_found_even_if_the_root_itself_is_not_a_mount() -> None:
    """This is so after a chroot."""
    alone = parse_mounts("30 22 0:40 / /data rw - nfs4 server:/data rw")

    assert find_mount(PurePosixPath("/data/x"), alone) == alone[0]
    assert find_mount(PurePosixPath("/other"), alone) is None


def test_a_folder_of_this_machine_is_found() -> None:
    assert mount_of(Path("/proc/self")) is not None


def test_a_database_on_a_network_file_system_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = Mount(2, 1, PurePosixPath("/mnt/team share"), "fuse.glusterfs")
    monkeypatch.setattr(sqlite_engine, "mount_of", lambda folder: share)

    with pytest.raises(StoreError, match=r"fuse\.glusterfs .*/mnt/team share\).*KVJOBS_HOME"):
        Database.open(f"sqlite:///{tmp_path / 'kvjobs.db'}")
