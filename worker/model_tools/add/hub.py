"""
A model of the Hugging Face hub, downloaded into the cache that all clients of the hub share on this machine.

Knows: which files of a repository a model needs, checksums, the cache. Does not know: how graphs are built.

HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE and HF_TOKEN have their usual meaning. There is no telemetry:
requests name kvjobs and huggingface_hub, and nothing else.
"""

import hashlib
import os
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from jobs import __version__
from jobs.errors import KvjobsError, ModelError, SpecError
from worker.graphs.architectures import BART, MARIAN, architecture_of
from worker.model_tools.add.built_tokenizer import build_tokenizer
from worker.model_tools.add.download import Remote, bars, download
from worker.model_tools.add.hub_errors import explained, network_errors, reason_of, status_of
from worker.model_tools.add.model_card import CARD
from worker.models.checkpoint.checkpoint import check_architecture
from worker.models.contents.present_files import kind_of
from worker.models.contents.required_files import TRANSLATION_TOKENIZERS, lacks_tokenizer, required_tokenizer
from worker.models.file_names import (
    CAUSAL_GRAPH,
    CAUSAL_TOKENIZER,
    CAUSAL_TOKENIZER_EXTRAS,
    CHECKPOINT,
    CONFIGURATION,
    DECODER,
    ENCODER,
    INDEX,
    MERGED,
    PICKLE,
    PICKLE_INDEX,
    SAFETENSORS,
    SENTENCE_TRANSFORMERS,
    TOKENIZER,
    WITH_PAST,
)
from worker.models.json_file import read_json, read_json_or_empty
from worker.models.manifest import MANIFEST
from worker.models.model_folder import ModelFolder, read_manifest
from worker.models.model_kind import ModelKind, names_causal
from worker.models.unsupported import refuse_files
from worker.text.file_names import VOCABULARY_FILES, vocabulary_in

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when huggingface_hub is imported

_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")
_PICKLED_SHARD = re.compile(r"pytorch_model-\d+-of-\d+\.bin")
_SHA256 = re.compile("[0-9a-f]{64}")
_GIT_SHA1 = re.compile("[0-9a-f]{40}")
_NAME = re.compile(r"[\w.-]*\w")  # a file name without a path
_NUM_SHOWN = 12  # files in an error message


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """A hub and the cache for it."""

    endpoint: str
    cache: Path
    offline: bool = False
    token: str | None = None  # None: HF_TOKEN, else the token of `hf auth login`

    @classmethod
    def of_environment(cls) -> Self:
        """The hub that the environment names. Raises SpecError for an endpoint that is not a URL."""
        from huggingface_hub import constants

        if urlsplit(constants.ENDPOINT).scheme not in ("http", "https"):
            raise SpecError(f"HF_ENDPOINT is {constants.ENDPOINT!r}; write https://host")
        return cls(
            endpoint=constants.ENDPOINT, cache=Path(constants.HF_HUB_CACHE), offline=bool(constants.HF_HUB_OFFLINE)
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The downloaded files of one commit."""

    folder: Path
    commit: str
    note: str | None = None  # why it may not be the newest commit


def fetch(model_id: str, revision: str | None, hub: Hub) -> Snapshot:
    """Download the files of a model into the cache, except those that it has.

    Without a network, the files in the cache are used. Raises NotFoundError for an unknown model or revision, SpecError
    where access has to be requested, ModelError for a repository that no model can be made from, KvjobsError for errors
    that may pass.
    """
    with explained(model_id, revision, hub.endpoint, hub.cache), _silenced():
        if hub.offline:
            return _cached(model_id, revision, hub, "HF_HUB_OFFLINE is set")
        try:
            commit, files = _list(model_id, revision, hub)
        except network_errors() as error:
            if status_of(error) is not None:
                raise  # the hub answered
            return _cached(model_id, revision, hub, f"{hub.endpoint} cannot be reached ({reason_of(error)})")
        return _online(model_id, revision, hub, commit, files)


def wanted(names: Collection[str]) -> list[str]:
    """The files of a repository that a model is made from, sorted; empty where there is no model.

    A model that kvjobs added comes before a checkpoint, safetensors before a pickle, a checkpoint before an export.
    """
    if MANIFEST in names:
        return sorted(name for name in names if name.endswith((".onnx", ".data", ".json", ".spm", ".model")))
    if SAFETENSORS in names:
        main = [SAFETENSORS]
    elif INDEX in names:
        main = [INDEX, *(name for name in names if _SHARD.fullmatch(name))]
    elif PICKLE in names:
        main = [PICKLE]
    elif PICKLE_INDEX in names:
        main = [PICKLE_INDEX, *(name for name in names if _PICKLED_SHARD.fullmatch(name))]
    else:
        main = _export(names)
    tokenizer = {
        name
        for files in TRANSLATION_TOKENIZERS.values()
        if any(file in names for file in files if file.endswith((".spm", ".model")))  # SentencePiece models
        for name in files
    }
    if not tokenizer:
        builds = TOKENIZER not in names and bool({*main} & {*CHECKPOINT})
        tokenizer = {*CAUSAL_TOKENIZER, *CAUSAL_TOKENIZER_EXTRAS, *(VOCABULARY_FILES if builds else ())}
    elif "source.spm" in names:
        tokenizer.add(CARD)
    beside = ({*CONFIGURATION, *SENTENCE_TRANSFORMERS} | tokenizer) & {*names}
    return sorted([*main, *beside]) if main else []


def _export(names: Collection[str]) -> list[str]:
    """The graphs of Optimum's best layout, and their external weights."""
    for prefix in ("", "onnx/"):
        for files in ([ENCODER, MERGED], [ENCODER, DECODER, WITH_PAST], [ENCODER, DECODER], [CAUSAL_GRAPH]):
            graphs = [f"{prefix}{name}" for name in files]
            if set(graphs) <= set(names):
                return [name for name in names if name.startswith(tuple(graphs))]
    return []


@dataclass(frozen=True, slots=True)
class _HubFile:
    """A file of a repository: `sha256` for a large one (Git LFS), else its git id."""

    name: str
    git_sha1: str | None
    sha256: str | None


def _list(model_id: str, revision: str | None, hub: Hub) -> tuple[str, dict[str, _HubFile]]:
    """The commit of the revision, and its files."""
    from huggingface_hub import HfApi

    api = HfApi(endpoint=hub.endpoint, token=hub.token, library_name="kvjobs", library_version=__version__)
    info = api.model_info(model_id, revision=revision, files_metadata=True)
    files = (
        _HubFile(sibling.rfilename, sibling.blob_id, sibling.lfs.sha256 if sibling.lfs else None)
        for sibling in info.siblings or []
    )
    return str(info.sha), {file.name: file for file in files}


def _online(model_id: str, revision: str | None, hub: Hub, commit: str, files: Mapping[str, _HubFile]) -> Snapshot:
    from huggingface_hub import hf_hub_download, snapshot_download

    chosen = wanted(files.keys())
    _check_names(model_id, hub, files.keys(), chosen)
    call = {"endpoint": hub.endpoint, "cache_dir": hub.cache, "token": hub.token}
    # First the file that names the architecture: a model may not be supported, and have hundreds of megabytes.
    descriptor = MANIFEST if MANIFEST in chosen else "config.json"
    descriptor_file = Path(hf_hub_download(model_id, descriptor, revision=commit, **call))
    is_causal_export = not set(CHECKPOINT) & set(chosen) and names_causal(read_json(descriptor_file))
    if descriptor != MANIFEST and not is_causal_export:
        check_architecture(descriptor_file, model_id)
    folder = ModelFolder(model_id, descriptor_file.parent)
    _check_tokenizer(model_id, hub, files.keys(), folder)
    if _vocabulary(folder, files.keys()):
        for name in {*CAUSAL_TOKENIZER_EXTRAS, *VOCABULARY_FILES} & {*chosen}:
            hf_hub_download(model_id, name, revision=commit, **call)
        build_tokenizer(folder.path)
    for name in chosen:
        if files[name].sha256:
            _fetch_large(model_id, commit, hub, files[name])
    # By the revision in the request, so that the cache resolves it without a network.
    snapshot = Path(snapshot_download(model_id, revision=revision, allow_patterns=chosen, **call))
    _check_sums(snapshot, {name: files[name] for name in chosen})
    return Snapshot(snapshot, snapshot.name)


def _fetch_large(model_id: str, commit: str, hub: Hub, file: _HubFile) -> None:
    """Download to the place where huggingface_hub looks for the file: its ETag, for large files the checksum."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import repo_folder_name
    from huggingface_hub.utils import build_hf_headers

    url = hf_hub_url(model_id, file.name, revision=commit, endpoint=hub.endpoint)
    metadata = get_hf_file_metadata(url, token=hub.token, endpoint=hub.endpoint)
    is_full_hub = metadata.size is not None and metadata.location is not None and _NAME.fullmatch(metadata.etag or "")
    if file.sha256 is None or not is_full_hub:
        return  # huggingface_hub downloads the file, and `_check_sums` follows
    blob = hub.cache / repo_folder_name(repo_id=model_id, repo_type="model") / "blobs" / metadata.etag
    if blob.exists():
        return
    headers = build_hf_headers(token=hub.token, library_name="kvjobs", library_version=__version__)
    if urlsplit(metadata.location).netloc != urlsplit(url).netloc:
        headers.pop("authorization", None)  # the token is for the hub, not for its file storage
    download(Remote(file.name, metadata.location, headers, metadata.size, file.sha256), blob)


def _check_names(model_id: str, hub: Hub, names: Collection[str], chosen: Collection[str]) -> None:
    refuse_files(names, model_id)
    if not chosen:
        some = ", ".join(sorted(names)[:_NUM_SHOWN]) or "none"
        more = f" and {len(names) - _NUM_SHOWN} more" if len(names) > _NUM_SHOWN else ""
        raise ModelError(
            f"{model_id} on {hub.endpoint} has neither {SAFETENSORS} nor {PICKLE} nor graphs as Optimum exports them "
            f"(files: {some}{more}): name another model"
        )
    if "config.json" not in names:
        raise ModelError(f"{model_id} on {hub.endpoint} has no config.json: it is not a model that kvjobs supports")


def _check_tokenizer(model_id: str, hub: Hub, names: Collection[str], folder: ModelFolder) -> None:
    for name in _required_tokenizer(folder, names):
        if name not in names:
            is_translation = kind_of(folder) is ModelKind.TRANSLATION
            why = "the model's tokenizer is read from it" if is_translation else lacks_tokenizer(names)
            raise ModelError(f"{model_id} on {hub.endpoint} has no {name}: {why}")


def _required_tokenizer(folder: ModelFolder, names: Collection[str]) -> tuple[str, ...]:
    """The files without which a model has no tokenizer. `folder` has the files that describe the model."""
    if vocabulary := _vocabulary(folder, names):
        return vocabulary
    is_translation = kind_of(folder) is ModelKind.TRANSLATION
    return required_tokenizer(_family(folder), names) if is_translation else CAUSAL_TOKENIZER


def _vocabulary(folder: ModelFolder, names: Collection[str]) -> tuple[str, ...]:
    """The files of an older tokenizer that tokenizer.json is built from; none where the model has another one."""
    if TOKENIZER in names or (kind_of(folder) is ModelKind.TRANSLATION and _family(folder) != BART):
        return ()
    return vocabulary_in(wanted(names))


def _family(folder: ModelFolder) -> str:
    manifest = read_manifest(folder)
    named = manifest.architecture if manifest else architecture_of(read_json_or_empty(folder.path / "config.json"))
    return named or MARIAN


def _cached(model_id: str, revision: str | None, hub: Hub, why: str) -> Snapshot:
    """The snapshot that an earlier call downloaded; raise KvjobsError where it is incomplete."""
    from huggingface_hub import try_to_load_from_cache

    named = f"{model_id}@{revision}" if revision else model_id
    found = try_to_load_from_cache(model_id, "config.json", cache_dir=hub.cache, revision=revision)
    if not isinstance(found, str):
        raise KvjobsError(f"{why}, and {named} is not in the cache ({hub.cache}): add it once with a network")
    folder = Path(found).parent
    names = [file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()]
    chosen = wanted(names)
    if not chosen or not set(_required_tokenizer(ModelFolder(named, folder), names)) <= set(names):
        raise KvjobsError(f"{why}, and the cache has only a part of {named} ({folder}): add it once with a network")
    _check_sums(folder, {name: _in_cache(folder, name) for name in chosen})
    return Snapshot(folder, folder.name, f"{why}: took {named} from the cache")


def _in_cache(folder: Path, name: str) -> _HubFile:
    """A file of the cache: a link to a blob, whose name is its checksum."""
    blob = (folder / name).resolve().name
    return _HubFile(name, blob if _GIT_SHA1.fullmatch(blob) else None, blob if _SHA256.fullmatch(blob) else None)


def _check_sums(folder: Path, files: Mapping[str, _HubFile]) -> None:
    """Raise KvjobsError for a file with a wrong checksum, and remove it, so that the next call downloads it again."""
    for name, file in files.items():
        link = folder / name
        blob = link.resolve()
        if not blob.is_file():
            raise KvjobsError(f"{link} is missing, though it was downloaded: run the same command again")
        if file.sha256:
            is_right = _digest(hashlib.sha256(), blob) == file.sha256
        elif file.git_sha1:
            header = f"blob {blob.stat().st_size}\0".encode()
            is_right = _digest(hashlib.sha1(header, usedforsecurity=False), blob) == file.git_sha1
        else:
            continue
        if not is_right:
            link.unlink()
            blob.unlink(missing_ok=True)
            raise KvjobsError(
                f"{name} in the cache is damaged: its checksum is not that of the hub; it was removed, run the same "
                "command again"
            )


def _digest(digest: Any, file: Path) -> str:
    with file.open("rb") as content:
        while chunk := content.read(1 << 20):
            digest.update(chunk)
    return str(digest.hexdigest())


@contextmanager
def _silenced() -> Iterator[None]:
    """Silence the library within this context: its warnings, which kvjobs reports itself, and its progress bars."""
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()
    with warnings.catch_warnings(), bars(False):
        warnings.simplefilter("ignore")
        yield
