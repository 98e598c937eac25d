"""On which file system a folder lies, as Linux tells it (/proc/self/mountinfo), and whether that is a network's."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# SQLite's locks and its shared-memory index do not work across machines (sqlite.org/wal.html, "disadvantages" 2). What
# a virtual machine shares with its host (9p, virtiofs, vboxsf) is another machine's too.
NETWORK = {
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "coda",
    "davfs",
    "glusterfs",
    "gpfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "orangefs",
    "panfs",
    "smb3",
    "smbfs",
    "vboxsf",
    "virtiofs",
    "vmhgfs",
}
# Of FUSE's (`fuse.NAME`); others, as mergerfs or gocryptfs, only show a local disk otherwise.
NETWORK_FUSE = {
    "afpfs",
    "blobfuse",
    "blobfuse2",
    "ceph",
    "ceph-fuse",
    "curlftpfs",
    "davfs",
    "davfs2",
    "gcsfuse",
    "glusterfs",
    "goofys",
    "grpcfuse",
    "juicefs",
    "lizardfs",
    "mfs",
    "moosefs",
    "mount-s3",
    "mountpoint-s3",
    "rclone",
    "s3fs",
    "seaweedfs",
    "smbnetfs",
    "sshfs",
    "vmhgfs-fuse",
}


@dataclass(frozen=True, slots=True)
class Mount:
    """A file system that is mounted somewhere."""

    number: int
    parent: int  # the mount on which it is mounted
    point: PurePosixPath
    kind: str

    @property
    def is_of_network(self) -> bool:
        family, _, name = self.kind.partition(".")
        return name in NETWORK_FUSE if family == "fuse" else self.kind in NETWORK


def mount_of(folder: Path) -> Mount | None:
    """The mount that a folder lies on; None where nobody knows, as on other systems than Linux."""
    try:
        told = Path("/proc/self/mountinfo").read_bytes()
    except OSError:
        return None
    return find_mount(PurePosixPath(folder.resolve()), parse_mounts(os.fsdecode(told)))


def parse_mounts(told: str) -> list[Mount]:
    """The lines of a mountinfo (man 5 proc): `36 35 98:0 /root /point options optional... - kind source options`."""
    mounts = []
    for line in told.split("\n"):
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if separator and len(fields) >= 6:
            point = PurePosixPath(_unescape(fields[4]))
            mounts.append(Mount(int(fields[0]), int(fields[1]), point, _unescape(after.split(" ")[0])))
    return mounts


def find_mount(folder: PurePosixPath, mounts: Iterable[Mount]) -> Mount | None:
    """Go down from the root as the kernel does. At each folder the mount on it is entered, then what is mounted over
    that; what lies below a folder over which something was mounted later is not to be seen."""
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
    """A space is written as \\040, and so are tabs, line ends and backslashes, each by its octal number."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
