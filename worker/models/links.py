"""
Which symbolic links among a model's files are followed.

Knows: paths, and how the Hugging Face cache is laid out. Does not know: what a model needs. Needs only the standard
library.
"""

from pathlib import Path

from jobs.errors import ModelError


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
