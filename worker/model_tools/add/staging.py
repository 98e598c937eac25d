"""
The hidden folder in which a model is assembled before it gets its name.

Knows: folders, locks, renames. Does not know: what a model is.

    models/.adding-k3x0.../lock       locked by the process that uses the folder; the kernel unlocks it when that dies
    models/.adding-k3x0.../model/     becomes models/NAME by one rename, when every byte is on the disk
    models/.adding-k3x0.../scratch/   for files that are not part of the model, such as graphs to compare it with
    models/.adding-k3x0.../replaced/  the former NAME, where names cannot be exchanged in one step

A lock instead of a process id: it is also right for other containers, other machines of a shared folder, and after a
reboot.
"""

import ctypes
import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobs.errors import KvjobsError, SpecError
from jobs.system.private import make_folder

_PREFIX = ".adding-"
_LOCK = "lock"
_MODEL = "model"
_REPLACED = "replaced"
_SCRATCH = "scratch"
_LOCK_GRACE_S = 60.0  # a new folder is locked long before that

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_FULL = {errno.ENOSPC, errno.EDQUOT}
_NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS}


class Staging:
    """A folder to fill and then to publish."""

    def __init__(self, models_dir: Path, root: Path) -> None:
        self.path = root / _MODEL
        self._models_dir = models_dir
        self._root = root

    def empty(self) -> None:
        """Remove all files from the folder."""
        shutil.rmtree(self.path)
        self.path.mkdir()

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty folder beside the model, for files that are not part of it."""
        folder = self._root / _SCRATCH
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, name: str, *, force: bool) -> Path:
        """Rename the folder to `name` in one step, and return its path.

        `force`: replace an existing folder of that name; otherwise, raise SpecError.
        """
        published = self._models_dir / name
        _sync_tree(self.path)
        if force and os.path.lexists(published):
            self._replace(published)
        else:
            try:
                self.path.rename(published)
            except OSError as error:
                if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                    raise SpecError(taken_message(published)) from None
                raise
        _sync(self._models_dir)
        return published

    def _replace(self, published: Path) -> None:
        """Exchange the two names; where the file system cannot do that, the name is missing for a moment."""
        if _exchange(self.path, published):
            return
        aside = self._root / _REPLACED / published.name
        aside.parent.mkdir()
        published.rename(aside)
        try:
            self.path.rename(published)
        except OSError:
            aside.rename(published)
            raise


@contextmanager
def staging(models_dir: Path) -> Iterator[Staging]:
    """A new hidden folder in `models_dir`, removed at the end in any case.

    Also removes such folders of killed processes. Raises KvjobsError where nothing can be written.
    """
    try:
        make_folder(models_dir)
        sweep(models_dir)
        root, lock = _new_root(models_dir)
    except OSError as error:
        if error.errno in _NOT_WRITABLE | _FULL | {errno.ENOTDIR, errno.EEXIST}:
            raise KvjobsError(f"nothing can be written into the models folder {models_dir}: {error.strerror}") from None
        raise
    try:
        yield Staging(models_dir, root)
    except OSError as error:
        if error.errno in _FULL:
            free = shutil.disk_usage(models_dir).free // 2**20
            raise KvjobsError(
                f"the disk of {models_dir} is full ({free:,} MiB are left): make room, or set another folder with "
                "KVJOBS_MODELS_DIR"
            ) from error
        raise
    finally:
        shutil.rmtree(root, ignore_errors=True)
        os.close(lock)


def sweep(models_dir: Path) -> None:
    """Remove the folders of killed processes, and restore a model that one of them had moved aside."""
    for root in models_dir.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(root / _LOCK, os.O_RDWR)
        except OSError:
            if _age_s(root) > _LOCK_GRACE_S:
                shutil.rmtree(root, ignore_errors=True)
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # in use
        else:
            _restore(root / _REPLACED, models_dir)
            shutil.rmtree(root, ignore_errors=True)
        finally:
            os.close(lock)


def taken_message(published: Path) -> str:
    """The error message for a name that exists."""
    return (
        f"there is already a model {published.name} ({published}): choose another name with --name, or replace it "
        "with --force"
    )


def _new_root(models_dir: Path) -> tuple[Path, int]:
    """A new folder and its lock, which is held. If another process removes the folder before it is locked, another
    folder is made."""
    while True:
        root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=models_dir))
        lock = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            (root / _MODEL).mkdir()
        except FileNotFoundError:
            os.close(lock)
            continue
        return root, lock


def _restore(replaced: Path, models_dir: Path) -> None:
    for folder in replaced.glob("*"):
        if not os.path.lexists(models_dir / folder.name):
            folder.rename(models_dir / folder.name)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two names in one step (Linux); False where the system or the file system cannot."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    done: int = renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
    return done == 0


def _sync_tree(folder: Path) -> None:
    """Write everything below `folder` to the disk; otherwise the rename may be stored before the content."""
    for below, _, files in os.walk(folder, topdown=False):
        for file in files:
            _sync(Path(below, file))
        _sync(Path(below))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
