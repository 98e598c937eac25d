"""The files of a causal language model in a GGUF file: built from it, or the file itself, for llama.cpp to run."""

import errno
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobs.errors import ModelError
from jobs.system.requirements import install_command, is_installed
from jobs.text.formatting import size
from worker.engine.causal.llamacpp.library import LIBRARY, PACKAGE
from worker.engine.causal.llamacpp.trial import try_gguf
from worker.graphs.architectures import MARIAN
from worker.graphs.precision import Precision
from worker.model_tools.add.causal_files import write_graphs
from worker.model_tools.origin import Origin
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.checkpoint.gguf_file import GgufFile
from worker.models.checkpoint.gguf_network import GgufNetwork
from worker.models.file_names import CAUSAL_TOKENIZER, CAUSAL_TOKENIZER_EXTRAS, CONFIG, GGUF_MODEL
from worker.models.manifest import GGUF, Manifest
from worker.models.model_kind import UNNAMED
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.chat_template import has_template
from worker.text.file_names import CHAT_TEMPLATE
from worker.text.gguf_tokenizer import named_tokens, template_in, tokenizer_files
from worker.text.special_tokens import named_token
from worker.text.tokenizer_files import read_object
from worker.text.tokenizer_trial import try_tokenizer

_CHUNK = 1 << 30
# The kernel cannot copy between these files by itself: copy_file_range(2).
_NOT_COPIED = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY}


def build_gguf(folder: Path, origin: Origin, file: Path, precision: Precision) -> tuple[Manifest, str]:
    """Write native graphs, config.json and the tokenizer; also return a sentence on where the tokenizer is from.

    `file` is in `origin.folder`. A tokenizer.json beside it counts more than its own vocabulary.
    """
    checkpoint, metadata = Checkpoint.open(file), GgufFile.open(file).metadata
    _write_json(folder / CONFIG, dict(checkpoint.config))
    beside = origin.present(CAUSAL_TOKENIZER)
    if beside:
        beside = origin.present((*CAUSAL_TOKENIZER, *CAUSAL_TOKENIZER_EXTRAS))
        origin.copy(beside, folder)
        note = f"The tokenizer is {origin.folder / beside[0]}, not the vocabulary in {file.name}."
    else:
        for name, content in tokenizer_files(metadata, str(file)).items():
            _write_json(folder / name, content)
        note = f"The tokenizer is built from the vocabulary in {file.name}; no tokenizer.json is beside it."
    _check_tokenizer(folder, file, is_built=not beside)
    _carry_template(folder, file, metadata)
    write_graphs(folder, checkpoint, precision)
    manifest = origin.manifest(
        folder,
        layout="kv",
        architecture=checkpoint.architecture,
        read=(*checkpoint.files, *beside),
        precision=precision,
    )
    return manifest, note


def _check_tokenizer(folder: Path, file: Path, *, is_built: bool) -> None:
    """Raise ModelError where the tokenizer cannot be opened, or takes too long for a long line."""
    try:
        CausalTokenizer.open(folder)
    except ModelError as error:
        if is_built:  # the user has no such file
            raise ModelError(f"{file} holds an invalid vocabulary (tokenizer.ggml.*): download it again") from error
        raise
    try_tokenizer(folder)


def _carry_template(folder: Path, file: Path, metadata: Mapping[str, Any]) -> None:
    """Write the file's chat template, unless one came with the tokenizer. It is not compiled: a damaged one keeps no
    text from being scored."""
    source = template_in(metadata, file)
    if source is None or has_template(folder):
        return
    bos = named_tokens(metadata).get("bos_token")
    config = read_object(folder / "tokenizer_config.json", is_optional=True)
    if "bos_token" in source and bos and named_token(folder, config, "bos_token") is None:
        # The tokenizer names none where texts begin without it. (The line break after a tag is not rendered.)
        source = f"{{% set bos_token = {json.dumps(bos, ensure_ascii=False)} %}}\n{source}"
    (folder / CHAT_TEMPLATE).write_text(source, encoding="utf-8", newline="")


def _write_json(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def keep_gguf(folder: Path, origin: Origin, file: Path, why: str | None) -> tuple[Manifest, str]:
    """Copy `file` into `folder`, with its sizes as a config.json; also return a sentence that tells the user about it.

    `why`: the reason that no graphs were built; None: the user asked for that. The file is not hard-linked, because
    deleting one of two names changes a file's time of change, by which a worker sees that its model was written to.
    Raises ModelError where the file holds no causal language model.
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
    """Copy a file. The kernel does it, sharing blocks on some file systems; if it cannot, byte by byte."""
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
