"""A file of a model as it is on the disk: opened, and refused if it has no content, or is a link out of the model's
folder. Needs only the standard library."""

from pathlib import Path
from typing import BinaryIO

from jobs.errors import ModelError

_LFS_POINTER = b"version https://git-lfs"


def open_file(file: Path) -> BinaryIO:
    """Open it for reading; raise ModelError where that fails."""
    try:
        return file.open("rb")
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from error


def refuse_placeholder(file: Path) -> None:
    """Raise ModelError for a file that is empty, or the pointer that Git LFS leaves in place of a large one."""
    with open_file(file) as content:
        start = content.read(len(_LFS_POINTER))
    if not start:
        raise ModelError(f"{file} is empty: download or export it again")
    if start == _LFS_POINTER:
        raise ModelError(f"{file} is a Git LFS pointer, not the file itself: run `git lfs pull` where it came from")


def refuse_link_out(file: Path, folder: Path) -> None:
    """Raise ModelError for a file of a model folder that is a link to something outside of it.

    The author of the folder chose the target of the link, and kvjobs would read and copy it with the user's own
    rights. Links within the folder are followed, and those into a Hugging Face cache, which consists of links:

        hub/models--OWNER--NAME/snapshots/COMMIT/config.json -> ../../blobs/SHA
    """
    real = Path(file).resolve()
    if real.is_relative_to(folder.resolve()):
        return
    if real.parent.name == "blobs" and real.parent.parent.name.startswith("models--"):
        return
    raise ModelError(
        f"{file} is a link to {real}, outside of the model's folder, and is not followed: put a copy of that file in "
        "its place"
    )
