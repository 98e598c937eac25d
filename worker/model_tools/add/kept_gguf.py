"""A GGUF file that is kept as it is, for llama.cpp to run."""

import errno
import json
import os
import shutil
from pathlib import Path

from jobs.formatting import size
from jobs.requirements import install_command, is_installed
from worker.engine.causal.llamacpp.library import LIBRARY, PACKAGE
from worker.engine.causal.llamacpp.trial import try_gguf
from worker.graphs.architectures import MARIAN
from worker.model_tools.origin import Origin
from worker.models.checkpoint.gguf_file import GgufFile
from worker.models.checkpoint.gguf_network import GgufNetwork
from worker.models.file_names import CONFIG, GGUF_MODEL
from worker.models.manifest import GGUF, Manifest
from worker.models.model_kind import UNNAMED

_CHUNK = 1 << 30
# The kernel cannot copy between these files by itself: copy_file_range(2).
_NOT_COPIED = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY}


def keep_gguf(folder: Path, origin: Origin, file: Path, why: str | None) -> tuple[Manifest, str]:
    """Copy `file` into `folder`, with its sizes as a config.json; also return a sentence on what was done.

    `why` no graphs were built of it; None: that was asked for. Not a hard link: to delete one of two names changes a
    file's time of change, by which a worker sees that its model was written to. Raises ModelError where the file holds
    no causal language model.
    """
    network = GgufNetwork.of(GgufFile.open(file))
    _copy(file, folder / GGUF_MODEL)
    content = json.dumps(network.config(), ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    (folder / CONFIG).write_text(content, encoding="utf-8")
    manifest = origin.manifest(
        folder,
        layout=GGUF,
        architecture=UNNAMED if network.architecture == MARIAN else network.architecture,
        read=(file.name,),
        precision=network.label,
    )
    reason = f" No graphs were built of it: {why}" if why else ""
    needed = "" if is_installed(LIBRARY) else f", once it is installed: {install_command(PACKAGE)}"
    return manifest, (
        f"{file.name} was copied as it is ({size(file.stat().st_size)}; the original is no longer needed).{reason}\n"
        f"It runs with llama.cpp (--providers llamacpp){needed}"
    )


def try_kept(folder: Path) -> None:
    """Load the model as a worker does, in another process; raise ModelError where that fails. Not tried where llama.cpp
    is not installed."""
    if is_installed(LIBRARY):
        try_gguf(folder)


def _copy(source: Path, target: Path) -> None:
    """By the kernel, which on some file systems shares the blocks of the two files; else byte by byte."""
    with source.open("rb") as content, target.open("wb") as copied:
        left = os.fstat(content.fileno()).st_size
        try:
            while left and (count := os.copy_file_range(content.fileno(), copied.fileno(), min(left, _CHUNK))):
                left -= count
        except OSError as error:
            if error.errno not in _NOT_COPIED:
                raise
            content.seek(0)
            copied.seek(0)
            copied.truncate()
            shutil.copyfileobj(content, copied, 1 << 20)
