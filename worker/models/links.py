"""Links among a model's files: which are followed.

Knows: paths, and how the Hugging Face cache is laid out. Does not know: what a model needs. Standard library alone: the
registry imports this.
"""

from pathlib import Path

from jobs.errors import ModelError


def refuse_link_out(file: Path, folder: Path) -> None:
    """Raise ModelError for a file of a model folder that is a link to something outside of it.

    Whoever made the folder has chosen the place that the link names, and we would read it and copy it with our own
    rights. Followed are links within the folder, and those into a Hugging Face cache, which is made of links:

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
