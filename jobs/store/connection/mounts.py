"""The file system of a folder, from Linux's /proc/self/mountinfo, and whether it is a network file system."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

# SQLite's locks and its shared-memory index do not work across machines (sqlite.org/wal.html, "disadvantages" 2). A
# folder that a virtual machine shares with its host (9p, virtiofs, vboxsf) counts as another machine's.
NETWORK = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs"),
    *("nfs4", "orangefs", "panfs", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"),
}
# Types `fuse.NAME`. Other FUSE file systems, such as mergerfs or gocryptfs, present a local disk.
NETWORK_FUSE = {
    *("afpfs", "blobfuse", "blobfuse2", "ceph", "ceph-fuse", "curlftpfs", "davfs", "davfs2", "gcsfuse"),
    *("glusterfs", "goofys", "grpcfuse", "juicefs", "lizardfs", "mfs", "moosefs", "mount-s3", "mountpoint-s3"),
    *("rclone", "s3fs", "seaweedfs", "smbnetfs", "sshfs", "vmhgfs-fuse"),
}


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system."""

    number: int
    parent: int  # the mount on which it is mounted
    point: PurePosixPath
    kind: str

    @property
    def is_network(self) -> bool:
        family, _, name = self.kind.partition(".")
        return name in NETWORK_FUSE if family == "fuse" else self.kind in NETWORK


def mount_of(folder: Path) -> Mount | None:
    """The mount that holds a folder; None where it cannot be known, as on other systems than Linux."""
    try:
        mountinfo = Path("/proc/self/mountinfo").read_bytes()
    except OSError:
        return None
    return find_mount(PurePosixPath(folder.resolve()), _mounts(mountinfo))


@lru_cache(maxsize=1)  # they seldom change while a process runs, and take 1 ms
def _mounts(mountinfo: bytes) -> list[Mount]:
    return parse_mounts(os.fsdecode(mountinfo))


def parse_mounts(mountinfo: str) -> list[Mount]:
    """The lines of a mountinfo (man 5 proc): `36 35 98:0 /root /point options optional... - kind source options`."""
    mounts = []
    for line in mountinfo.split("\n"):
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if separator and len(fields) >= 6:
            point = PurePosixPath(_unescape(fields[4]))
            mounts.append(Mount(int(fields[0]), int(fields[1]), point, _unescape(after.split(" ")[0])))
    return mounts


def find_mount(folder: PurePosixPath, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that holds `folder`: walk down from the root as the kernel does. At each folder, enter the mount on it,
    then any mount over that one; mounts below a folder that was mounted over later are hidden."""
    mounts = list(mounts)
    on = {(mount.parent, mount.point): mount for mount in mounts}
    known = {mount.number for mount in mounts}
    outermost = {mount.point: mount for mount in mounts if mount.parent not in known or mount.parent == mount.number}
    found: Mount | None = None
    for path in (*reversed(folder.parents), folder):
        following = outermost.get(path) if found is None else on.get((found.number, path))
        while following is not None and following is not found:
            found, following = following, on.get((following.number, path))
    return found


def _unescape(field: str) -> str:
    """Undo the octal escapes: a space is written as \\040, and so are tabs, line ends and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
