"""
`kvjobs models add`: a model under a name of its own, from whatever people hand us.

Knows: the three kinds of folders, and what is read from each. Does not know: graphs, the hub's protocol, how to print.

    checkpoint     config.json + weights   -> graphs of our own ("kv")
    Optimum        encoder_model.onnx ...  -> a copy, with a manifest
    ours           kvjobs.json ...         -> a copy

Whatever fails on the way, nothing half-made has a name.
"""

import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from jobs.errors import ModelError, NotFoundError, SpecError
from worker.engine.generation import read_json
from worker.graphs.precision import Precision
from worker.models.checkpoint import Checkpoint
from worker.models.head import Head, target_ids
from worker.models.layouts import find_graphs
from worker.models.manifest import MANIFEST, Manifest, records, sha256_of
from worker.models.registry import (
    CONFIGURATION,
    ENCODER,
    TOKENIZER,
    TOKENIZER_EXTRAS,
    ModelFolder,
    check_files,
    has_weights,
    is_plain,
)
from worker.models.staging import Staging, staging, taken
from worker.text.marian import MarianTokenizer

_BESIDE = (*CONFIGURATION, *TOKENIZER, *TOKENIZER_EXTRAS)  # what belongs to a model besides graphs and weights
_DEFAULT_HEAD = {
    Precision.FP32: Head.FULL,  # promises the very ids of the checkpoint
    Precision.FP16: Head.FULL,
    Precision.INT8: Head.TARGET,  # an approximation already
}
_PACKAGES = ("kvjobs", "numpy", "onnx", "onnxruntime")  # whose versions may change what is written
_HUB_ID = re.compile(r"(?P<id>[\w-][\w.-]*/[\w.-]+)(@(?P<revision>[^@\s]+))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for. None: what suits the source."""

    source: str  # a folder, or OWNER/NAME of the hub, with @REVISION or without
    precision: Precision | None = None
    head: Head | None = None
    name: str | None = None
    force: bool = False  # replace a model of that name
    made_by: str | None = None  # what the manifest calls the source, where its place says nothing to anybody else


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What was made."""

    name: str
    path: str
    layout: str
    precision: str | None
    head: str | None
    head_size: int | None  # target ids that can come out; None: as the export has it
    num_bytes: int
    seconds: float
    source: str
    source_revision: str | None
    note: str | None  # what a person should know of how it was fetched


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where the files to read are, and what the manifest says of it."""

    folder: Path
    source: str
    revision: str | None = None
    note: str | None = None


def add_model(request: Request, models_dir: Path) -> Added:
    """Make a model of `request.source` in `models_dir`.

    Raises SpecError for a name that cannot be or is taken and for options that the source has no use for,
    NotFoundError where there is no such source, ModelError for files that no model can be made of, KvjobsError where
    the network or the disk fails.
    """
    started = time.monotonic()
    name = _name(request)
    if not request.force and os.path.lexists(models_dir / name):
        raise SpecError(taken(models_dir / name))
    origin = _find(request.source)
    if request.made_by is not None:
        origin = replace(origin, source=request.made_by)
    with staging(models_dir) as stage:
        with _named_after(origin.folder, stage.path):
            manifest = _fill(stage, origin, request)
            _try_out(name, stage.path)
        num_ids = _head_size(stage.path, manifest)
        path = stage.publish(name, force=request.force)
    return Added(
        name=name,
        path=str(path),
        layout=manifest.layout,
        precision=manifest.precision,
        head=manifest.head,
        head_size=num_ids,
        num_bytes=sum(record.bytes for record in manifest.files.values()),
        seconds=time.monotonic() - started,
        source=manifest.source,
        source_revision=manifest.revision,
        note=origin.note,
    )


@contextmanager
def _named_after(source: Path, copy: Path) -> Iterator[None]:
    """Let a ModelError name the files that a person knows, and not those that are gone when it is read."""
    try:
        yield
    except ModelError as error:
        raise ModelError(str(error).replace(str(copy), str(source))) from error


def _try_out(name: str, folder: Path) -> None:
    """Open it as a worker would: a model that cannot run gets no name."""
    from worker.engine.network import open_network  # loads onnxruntime

    check_files(ModelFolder(name, folder))
    MarianTokenizer.open(folder)
    open_network(folder)


def _name(request: Request) -> str:
    """The name that was asked for, or the last part of the source; which precision, where it is not fp32."""
    name = request.name
    if name is None:
        part = _without_revision(request.source)
        name = os.path.basename(os.path.abspath(part))
        if request.precision not in (None, Precision.FP32):
            name += f"-{request.precision}"
    if not is_plain(name):
        raise SpecError(f"{name!r} cannot be the name of a model: choose a plain one with --name, without / or a dot")
    return name


def _without_revision(source: str) -> str:
    match = None if os.path.isdir(source) else _HUB_ID.fullmatch(source)
    return match["id"] if match else source


def _find(source: str) -> _Origin:
    """The folder that is meant, or what the hub has given us."""
    if source and os.path.isdir(source):
        folder = Path(os.path.abspath(source))
        return _Origin(folder, str(folder))
    match = _HUB_ID.fullmatch(source)
    if match is None:
        raise NotFoundError(
            f"{source!r} is neither a folder nor an id of the Hugging Face hub (OWNER/NAME, or OWNER/NAME@REVISION)"
        )
    from worker.models.hub import Hub, fetch  # loads a client that a folder has no use for

    snapshot = fetch(match["id"], match["revision"], Hub.of_environment())
    return _Origin(snapshot.folder, match["id"], snapshot.commit, snapshot.note)


def _fill(stage: Staging, origin: _Origin, request: Request) -> Manifest:
    """Write the model into the stage's folder, its manifest last."""
    if (origin.folder / MANIFEST).is_file():
        _refuse_options(request, "was made by `kvjobs models add`")
        manifest = _copy_ours(stage.path, origin)
    elif has_weights(origin.folder) or not _is_export(origin.folder):
        manifest = _build(stage.path, origin, request)
    else:
        _refuse_options(request, "holds graphs that are used as they are")
        manifest = _copy_export(stage.path, origin)
    (stage.path / MANIFEST).write_bytes(manifest.to_bytes())
    return manifest


def _build(folder: Path, origin: _Origin, request: Request) -> Manifest:
    """Graphs of our own, from a checkpoint."""
    from worker.graphs.marian import write_marian  # loads onnx, which a copy has no use for

    checkpoint = Checkpoint.open(origin.folder)
    MarianTokenizer.open(origin.folder)  # what is wrong with it is better said before the work than after
    precision = request.precision or Precision.FP32
    head = request.head or _DEFAULT_HEAD[precision]
    head_ids = target_ids(origin.folder) if head is Head.TARGET else None
    write_marian(folder, checkpoint.config, checkpoint.weights, precision=precision, head_ids=head_ids)
    copied = [name for name in _BESIDE if (origin.folder / name).is_file()]
    _copy(origin.folder, folder, copied)
    return Manifest(
        layout="kv",
        architecture="marian",
        precision=precision,
        head=head,
        head_ids=None if head_ids is None else tuple(head_ids),
        source=origin.source,
        revision=origin.revision,
        source_files=_sums(origin.folder, {*checkpoint.files, *copied}),
        files=records(folder, _names(folder)),
        versions=_versions(),
    )


def _copy_export(folder: Path, origin: _Origin) -> Manifest:
    """Graphs that Optimum exported: those that its best layout uses, with their external weights."""
    graphs = find_graphs(origin.folder)
    place = graphs[ENCODER].parent
    weights = [file for file in place.iterdir() if file.is_file() and _is_external(file.name, graphs.keys())]
    named = [file.relative_to(origin.folder).as_posix() for file in (*graphs.values(), *weights)]
    named += [name for name in _BESIDE if (origin.folder / name).is_file()]
    _copy(origin.folder, folder, named)
    return Manifest(
        layout="optimum",
        architecture="marian",
        precision=None,
        head=None,
        head_ids=None,
        source=origin.source,
        revision=origin.revision,
        source_files=_sums(origin.folder, named),
        files=records(folder, named),
        versions=_versions(),
    )


def _copy_ours(folder: Path, origin: _Origin) -> Manifest:
    """A model that was added elsewhere: whatever its manifest lists, and nothing that it does not."""
    manifest = Manifest.read(origin.folder)
    for difference in manifest.differences(origin.folder):
        raise ModelError(difference)
    _copy(origin.folder, folder, manifest.files)
    return manifest


def _head_size(folder: Path, manifest: Manifest) -> int | None:
    if manifest.head is None:
        return None
    config = read_json(folder / "config.json")
    full: int = config.get("decoder_vocab_size") or config["vocab_size"]
    return full if manifest.head_ids is None else len(manifest.head_ids)


def _is_export(folder: Path) -> bool:
    return any((place / ENCODER).is_file() for place in (folder, folder / "onnx"))


def _is_external(name: str, graphs: Iterable[str]) -> bool:
    """Whether a file holds weights of these graphs: x.onnx_data (Optimum), x.onnx.data (torch), or x.data."""
    own = any(name.startswith(graph) and name != graph for graph in graphs)
    return own or (name.endswith(".data") and ".onnx" not in name)


def _refuse_options(request: Request, why: str) -> None:
    for option, value in (("--precision", request.precision), ("--head", request.head)):
        if value is not None:
            raise SpecError(
                f"{option} {value} is chosen when graphs are built, and {request.source} {why}: leave it out, or name "
                "the checkpoint"
            )


def _copy(source: Path, folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, folder / name)


def _sums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: sha256_of(folder / name) for name in sorted(names)}


def _names(folder: Path) -> list[str]:
    return [file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()]


def _versions() -> dict[str, str]:
    return {package: version(package) for package in _PACKAGES}
