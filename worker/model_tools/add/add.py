"""
`kvjobs models add`: a model under a name of its own, from whatever people hand us.

Knows: the three forms of folders. Does not know: which files a kind of model needs, the hub's protocol, how to print.

    checkpoint     config.json + weights   -> graphs of our own ("kv")
    export         graphs + tokenizer      -> a copy, with a manifest
    ours           kvjobs.json ...         -> a copy

Whatever fails on the way, nothing half-made has a name.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from jobs.errors import ModelError, NotFoundError, SpecError
from worker.graphs.architectures import architecture_of
from worker.graphs.precision import Precision
from worker.model_tools.add.causal_files import build_causal, compare_sample, copy_causal_export, try_causal
from worker.model_tools.add.marian_files import build_marian, copy_marian_export, head_size, try_marian
from worker.model_tools.add.staging import Staging, staging, taken
from worker.model_tools.add.target_ids import HeadChoice
from worker.model_tools.origin import Origin
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.contents.kind import kind_of
from worker.models.contents.present_files import has_exported_graphs, has_weights
from worker.models.contents.required_files import check_files, refuse_unknown_graphs
from worker.models.departures.departures import departures_in
from worker.models.file_names import CONFIG
from worker.models.json_file import read_json
from worker.models.manifest import MANIFEST, Manifest
from worker.models.model_folder import ModelFolder
from worker.models.model_kind import ModelKind
from worker.models.registry import is_model_name
from worker.models.unsupported import GGUF, refused_gguf
from worker.text.tokenizer_trial import try_tokenizer

_HUB_ID = re.compile(r"(?P<id>[\w-][\w.-]*/[\w.-]+)(@(?P<revision>[^@\s]+))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for. None: what suits the source."""

    source: str  # a folder, or OWNER/NAME of the hub, with @REVISION or without
    precision: Precision | None = None
    head: HeadChoice | None = None
    name: str | None = None
    force: bool = False  # replace a model of that name
    accept_departures: bool = False  # take an export whose graph contradicts its configuration, or its checkpoint
    checkpoint: str | None = None  # folder of the checkpoint that an export was made of
    made_by: str | None = None  # what the manifest calls the source, where its place says nothing to anybody else


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What was made."""

    name: str
    path: str
    kind: str  # translation | causal
    layout: str
    precision: str | None
    head: str | None
    head_size: int | None  # target ids that can come out; None: as the export has it
    num_bytes: int
    seconds: float
    source: str
    source_revision: str | None
    note: str | None  # what a person should know of how it was fetched
    warnings: tuple[str, ...]  # how the graph of an export differs from its configuration


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
        with _named_after(origin.folder, stage.path, request.checkpoint):
            manifest = _fill(stage, origin, request)
            _try_out(ModelFolder(name, stage.path))
            manifest = _noting_departures(ModelFolder(name, stage.path), manifest, request)
        num_ids = head_size(stage.path, manifest)
        path = stage.publish(name, force=request.force)
    return Added(
        name=name,
        path=str(path),
        kind=ModelKind.of_architecture(manifest.architecture),
        layout=manifest.layout,
        precision=manifest.precision,
        head=manifest.head,
        head_size=num_ids,
        num_bytes=sum(record.bytes for record in manifest.files.values()),
        seconds=time.monotonic() - started,
        source=manifest.source,
        source_revision=manifest.revision,
        note=origin.note,
        warnings=manifest.departures,
    )


@contextmanager
def _named_after(source: Path, copy: Path, checkpoint: str | None) -> Iterator[None]:
    """Let a ModelError name the files that a person knows, and not those that are gone when it is read."""
    try:
        yield
    except ModelError as error:
        said = str(error)
        if checkpoint and not (source / CONFIG).is_file():  # an export without one has that of its checkpoint
            said = said.replace(str(copy / CONFIG), os.path.abspath(os.path.join(checkpoint, CONFIG)))
        raise ModelError(said.replace(str(copy), str(source))) from error


def _try_out(model: ModelFolder) -> None:
    """Open it as a worker would: a model that cannot run gets no name."""
    check_files(model)
    (try_marian if kind_of(model) is ModelKind.TRANSLATION else try_causal)(model.path)


def _noting_departures(model: ModelFolder, manifest: Manifest, request: Request) -> Manifest:
    """The manifest of an export, with what is known of how it differs from its configuration and its checkpoint."""
    if manifest.layout == "kv" or ModelKind.of_architecture(manifest.architecture) is ModelKind.TRANSLATION:
        return manifest
    known = departures_in(model.path).warnings()
    if manifest.checkpoint:
        known += compare_sample(model, Path(manifest.checkpoint), is_accepted=request.accept_departures)
    manifest = replace(manifest, departures=tuple(known))
    (model.path / MANIFEST).write_bytes(manifest.to_bytes())
    return manifest


def _name(request: Request) -> str:
    """The name that was asked for, or the last part of the source; which precision, where it is not fp32."""
    name = request.name
    if name is None:
        part = _without_revision(request.source)
        name = os.path.basename(os.path.abspath(part))
        if request.precision not in (None, Precision.FP32):
            name += f"-{request.precision}"
    if not is_model_name(name):
        raise SpecError(f"{name!r} cannot be the name of a model: choose a plain one with --name, without / or a dot")
    return name


def _without_revision(source: str) -> str:
    match = None if os.path.isdir(source) else _HUB_ID.fullmatch(source)
    return match["id"] if match else source


def _find(source: str) -> Origin:
    """The folder that is meant, or what the hub has given us."""
    if source and os.path.isdir(source):
        folder = Path(os.path.abspath(source))
        return Origin(folder, str(folder))
    if os.path.isfile(source) and source.endswith(GGUF):
        raise ModelError(refused_gguf(source, os.path.basename(source)))
    match = _HUB_ID.fullmatch(source)
    if match is None:
        raise NotFoundError(
            f"{source!r} is neither a folder nor an id of the Hugging Face hub; write OWNER/NAME or OWNER/NAME@REVISION"
        )
    from worker.model_tools.add.hub import Hub, fetch  # loads a client that a folder has no use for

    snapshot = fetch(match["id"], match["revision"], Hub.of_environment())
    return Origin(snapshot.folder, match["id"], snapshot.commit, snapshot.note)


def _fill(stage: Staging, origin: Origin, request: Request) -> Manifest:
    """Write the model into the stage's folder, its manifest last."""
    if (origin.folder / MANIFEST).is_file():
        _refuse_options(request, "was made by `kvjobs models add`")
        manifest = _copy_ours(stage.path, origin)
    elif _builds(origin.folder):
        refuse_unknown_graphs(origin.folder)
        if request.checkpoint is not None:
            raise SpecError(f"--checkpoint is for exports, and graphs are built of {request.source}: leave it out")
        manifest = _build(stage.path, origin, request)
    else:
        _refuse_options(request, "holds graphs that are used as they are")
        export = ModelFolder(origin.source, origin.folder)
        check_files(export)  # what is wrong with it is better said before gigabytes are copied
        if kind_of(export) is ModelKind.TRANSLATION:
            if request.checkpoint is not None:
                raise SpecError(f"--checkpoint is for causal models, and {request.source} translates: leave it out")
            manifest = copy_marian_export(stage.path, origin)
        else:
            checkpoint = _checkpoint(origin.folder, request)
            manifest = copy_causal_export(
                stage.path, origin, accepts_departures=request.accept_departures, checkpoint=checkpoint
            )
    (stage.path / MANIFEST).write_bytes(manifest.to_bytes())
    return manifest


def _builds(folder: Path) -> bool:
    """Whether graphs are built of a checkpoint. One of another architecture may lie beside an export of it."""
    if not has_weights(folder):
        return not has_exported_graphs(folder)
    config = folder / CONFIG
    return not has_exported_graphs(folder) or not config.is_file() or architecture_of(read_json(config)) is not None


def _checkpoint(folder: Path, request: Request) -> Path | None:
    """The checkpoint that an export was made of: the one that was named, or what lies beside it."""
    if request.checkpoint is None:
        return folder if has_weights(folder) else None
    named = Path(os.path.abspath(request.checkpoint))
    if not has_weights(named) or not (named / CONFIG).is_file():
        raise SpecError(f"--checkpoint {request.checkpoint} is no folder with a checkpoint, config.json and weights")
    return named


def _build(folder: Path, origin: Origin, request: Request) -> Manifest:
    """Graphs of our own, from a checkpoint."""
    checkpoint = Checkpoint.open(origin.folder)
    precision = request.precision or Precision.FP32
    if checkpoint.kind is ModelKind.TRANSLATION:
        return build_marian(folder, origin, checkpoint, precision, request.head)
    if request.head is not None:
        raise SpecError(
            f"--head is a choice for translation models, and {request.source} is {checkpoint.kind.noun}: leave it out"
        )
    return build_causal(folder, origin, checkpoint, precision)


def _copy_ours(folder: Path, origin: Origin) -> Manifest:
    """A model that was added elsewhere: whatever its manifest lists, and nothing that it does not."""
    manifest = Manifest.read(origin.folder)
    for difference in manifest.differences(origin.folder):
        raise ModelError(difference)
    if ModelKind.of_architecture(manifest.architecture) is ModelKind.CAUSAL:
        try_tokenizer(origin.folder)
    origin.copy(manifest.files, folder)
    return manifest


def _refuse_options(request: Request, why: str) -> None:
    for option, value in (("--precision", request.precision), ("--head", request.head)):
        if value is not None:
            raise SpecError(
                f"{option} {value} is chosen when graphs are built, and {request.source} {why}: leave it out, or name "
                "the checkpoint"
            )
