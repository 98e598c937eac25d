"""
Where a model is put together before it has a name.

Knows: folders, locks, renames. Does not know: what a model is.

    models/.adding-k3x0.../lock       held by the process that works in it: the kernel lets go when that dies
    models/.adding-k3x0.../model/     becomes models/NAME by one rename, when every byte is on the disk
    models/.adding-k3x0.../replaced/  what NAME was before, for the moment in which it is neither

A lock and not the number of a process: it also tells the truth of another container, another machine of a shared
folder, and a boot ago.
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
from jobs.private import make_folder

_PREFIX = ".adding-"
_LOCK = "lock"
_MODEL = "model"
_REPLACED = "replaced"
_BIRTH_S = 60.0  # a folder has its lock long before it is that old

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_FULL = {errno.ENOSPC, errno.EDQUOT}
_CLOSED = {errno.EACCES, errno.EPERM, errno.EROFS}


class Staging:
    """A folder to fill, and then to publish."""

    def __init__(self, models_dir: Path, root: Path) -> None:
        self.path = root / _MODEL
        self._models_dir = models_dir
        self._root = root

    def publish(self, name: str, *, force: bool) -> Path:
        """Give the folder its name, all at once, and return its path.

        `force`: it takes the place of a folder of that name. Raises SpecError where there is one otherwise.
        """
        published = self._models_dir / name
        _sync_tree(self.path)
        if force and os.path.lexists(published):
            self._take_the_place_of(published)
        else:
            try:
                self.path.rename(published)
            except OSError as error:
                if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                    raise SpecError(taken(published)) from None
                raise
        _sync(self._models_dir)
        return published

    def _take_the_place_of(self, published: Path) -> None:
        """Exchange the two names; where the file system cannot, there is a moment with neither."""
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
    """A new hidden folder in `models_dir`, which is gone afterwards whatever happens.

    Also sweeps away what processes left that were killed. Raises KvjobsError where nothing can be written.
    """
    try:
        make_folder(models_dir)
        sweep(models_dir)
        root, lock = _new_root(models_dir)
    except OSError as error:
        if error.errno in _CLOSED | _FULL | {errno.ENOTDIR, errno.EEXIST}:
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
    """Remove what killed processes left, and put back what one of them had moved aside."""
    for root in models_dir.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(root / _LOCK, os.O_RDWR)
        except OSError:
            if _age_s(root) > _BIRTH_S:
                shutil.rmtree(root, ignore_errors=True)
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # somebody works in it
        else:
            _put_back(root / _REPLACED, models_dir)
            shutil.rmtree(root, ignore_errors=True)
        finally:
            os.close(lock)


def taken(published: Path) -> str:
    """What is said of a name that exists."""
    return (
        f"there is already a model {published.name} ({published}): choose another name with --name, or replace it "
        "with --force"
    )


def _new_root(models_dir: Path) -> tuple[Path, int]:
    """A folder with its lock held; it may have been swept away before we had it, then another."""
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


def _put_back(replaced: Path, models_dir: Path) -> None:
    for folder in replaced.glob("*"):
        if not os.path.lexists(models_dir / folder.name):
            folder.rename(models_dir / folder.name)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step (Linux); False where it cannot be done so."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    done: int = renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return done == 0


def _sync_tree(folder: Path) -> None:
    """Every byte below `folder` on the disk: a rename may reach it earlier than what was written before."""
    for place, _, files in os.walk(folder, topdown=False):
        for file in files:
            _sync(Path(place, file))
        _sync(Path(place))


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
