"""
`kvjobs models add`: make a model with a name from a folder or a repository of the hub.

Knows: the forms of sources. Does not know: which files a kind of model needs, the hub's protocol, how to print.

    checkpoint     config.json + weights   -> native graphs (layout "kv")
    GGUF file      all of it               -> native graphs, else a copy for llama.cpp (layout "gguf")
    export         graphs + tokenizer      -> a copy, with a manifest
    added before   kvjobs.json ...         -> a copy

Where anything fails, no incomplete model gets a name.
"""

import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from jobs.errors import KvjobsError, ModelError, NotFoundError, SpecError
from worker.graphs.architectures import architecture_of
from worker.graphs.precision import Precision
from worker.model_tools.add.attention_choice import measure_attention
from worker.model_tools.add.built_tokenizer import built_from
from worker.model_tools.add.causal_files import build_causal, compare_sample, copy_causal_export, try_causal
from worker.model_tools.add.cross_encoder_files import build_cross_encoder, try_cross_encoder
from worker.model_tools.add.gguf_files import build_gguf, keep_gguf, try_kept
from worker.model_tools.add.int8_drift import measure_drift
from worker.model_tools.add.model_card import has_guided_alignment
from worker.model_tools.add.staging import Staging, staging, taken_message
from worker.model_tools.add.stand_in_trial import try_stand_ins
from worker.model_tools.add.target_ids import HeadChoice
from worker.model_tools.add.translation_files import (
    build_translation,
    copy_translation_export,
    head_size,
    target_languages,
    try_translation,
)
from worker.model_tools.origin import Origin
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.checkpoint.gguf_file import GgufFile
from worker.models.checkpoint.gguf_settings import NoGraphsError
from worker.models.contents.present_files import has_exported_graphs, has_weights, kind_of
from worker.models.contents.required_files import check_files, refuse_unknown_graphs
from worker.models.departures.departures import departures_in
from worker.models.drift import AnyDrift
from worker.models.file_names import CONFIG, GGUF_MODEL
from worker.models.json_file import read_json
from worker.models.manifest import MANIFEST, Manifest, is_gguf
from worker.models.model_folder import ModelFolder
from worker.models.model_kind import ModelKind
from worker.models.registry import is_model_name
from worker.models.unsupported import ignored_code, is_gguf_file
from worker.text.tokenizer_files import UnknownVocabularyError
from worker.text.tokenizer_trial import try_tokenizer

_HUB_ID = re.compile(r"(?P<id>[\w-][\w.-]*/[\w.-]+)(@(?P<revision>[^@\s]+))?", re.ASCII)


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to add, and how. None: a default that depends on the source."""

    source: str  # a folder, a GGUF file, or OWNER/NAME[@REVISION] on the hub
    precision: Precision | None = None
    keep_gguf: bool = False  # keep a GGUF file as it is, also where graphs could be built of it
    head: HeadChoice | None = None
    name: str | None = None
    force: bool = False  # replace a model of that name
    accept_departures: bool = False  # accept an export that contradicts its configuration or its checkpoint
    checkpoint: str | None = None  # folder of the checkpoint that an export was made from
    made_by: str | None = None  # source in the manifest, where the path means nothing to others


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A model that was added."""

    name: str
    path: str
    kind: str  # translation | causal | cross-encoder
    layout: str
    precision: str | None
    head: str | None
    head_size: int | None  # number of target ids of the head; None: as many as the export has
    target_languages: tuple[str, ...]  # that a job may name
    must_name_target: bool  # a job has to name one of them
    num_bytes: int
    bits_per_weight: float | None  # of a GGUF file that graphs were built of
    seconds: float
    source: str
    source_revision: str | None
    note: str | None  # a remark for the user on how it was fetched and built
    warnings: tuple[str, ...]  # departures of an export from its configuration
    drift: AnyDrift | None  # of a model in int8 from fp32
    drift_note: str | None  # why the drift was not measured


def add_model(request: Request, models_dir: Path) -> Added:
    """Make a model from `request.source` in `models_dir`.

    Raises SpecError for a name that is invalid or taken and for options that do not apply to the source,
    NotFoundError for a source that does not exist, ModelError for files that no model can be made from, KvjobsError
    where the network or the disk fails.
    """
    started = time.monotonic()
    name = _name(request)
    if request.keep_gguf and not is_gguf_file(Path(request.source)):
        raise SpecError(f"--keep-gguf is for GGUF files, and {request.source} is none: leave it out")
    if not request.force and os.path.lexists(models_dir / name):
        raise SpecError(taken_message(models_dir / name))
    origin = _find(request.source)
    note = origin.note
    if request.made_by is not None:
        origin = replace(origin, source=request.made_by)
    with staging(models_dir) as stage:
        with _naming_source(origin.gguf or origin.folder, stage.path, request.checkpoint):
            if origin.gguf is not None:
                manifest, note = _fill_from_gguf(stage, origin, origin.gguf, request)
            else:
                manifest = _fill(stage, origin, request)
                note = _remarks(origin, stage.path, manifest)
            _try_out(ModelFolder(name, stage.path))
            manifest = _record_departures(ModelFolder(name, stage.path), manifest, request)
            manifest, drift_note = _record_drift(stage, ModelFolder(name, stage.path), manifest, origin)
            manifest = _record_attention(stage.path, manifest, origin)
            manifest = _record_stand_ins(stage.path, manifest)
        kind = ModelKind.of_architecture(manifest.architecture)
        num_ids = head_size(stage.path, manifest)
        is_translation = kind is ModelKind.TRANSLATION
        languages, must_name = target_languages(stage.path) if is_translation else ((), False)
        path = stage.publish(name, force=request.force)
    return Added(
        name=name,
        path=str(path),
        kind=kind,
        layout=manifest.layout,
        precision=manifest.precision,
        head=manifest.head,
        head_size=num_ids,
        target_languages=languages,
        must_name_target=must_name,
        num_bytes=sum(record.bytes for record in manifest.files.values()),
        bits_per_weight=GgufFile.open(origin.gguf).bits_per_weight if origin.gguf and manifest.is_native else None,
        seconds=time.monotonic() - started,
        source=manifest.source,
        source_revision=manifest.revision,
        note=note,
        warnings=manifest.departures,
        drift=manifest.drift,
        drift_note=drift_note,
    )


def _remarks(origin: Origin, folder: Path, manifest: Manifest) -> str | None:
    """Sentences that tell the user how a model was fetched and built."""
    remarks = [
        origin.note,
        built_from(manifest),
        ignored_code(read_json(folder / CONFIG)) if manifest.is_native else None,
    ]
    return "\n".join(remark for remark in remarks if remark) or None


@contextmanager
def _naming_source(source: Path, copy: Path, checkpoint: str | None) -> Iterator[None]:
    """Let a ModelError name the source files, which the user knows, instead of the temporary copies."""
    try:
        yield
    except ModelError as error:
        message = str(error)
        if checkpoint and not (source / CONFIG).is_file():  # copied from the checkpoint of the export
            message = message.replace(str(copy / CONFIG), os.path.abspath(os.path.join(checkpoint, CONFIG)))
        message = message.replace(str(copy / GGUF_MODEL), str(source))
        raise ModelError(message.replace(str(copy), str(source))) from error


def _try_out(model: ModelFolder) -> None:
    """Open the model as a worker does; raises ModelError where it cannot run."""
    check_files(model)
    if is_gguf(model.path):
        try_kept(model.path)
    else:
        _TRIALS[kind_of(model)](model.path)


_TRIALS = {
    ModelKind.TRANSLATION: try_translation,
    ModelKind.CAUSAL: try_causal,
    ModelKind.CROSS_ENCODER: try_cross_encoder,
}


def _record_departures(model: ModelFolder, manifest: Manifest, request: Request) -> Manifest:
    """Write the departures of an export from its configuration and its checkpoint into its manifest."""
    if (
        manifest.is_native
        or manifest.is_gguf
        or ModelKind.of_architecture(manifest.architecture) is ModelKind.TRANSLATION
    ):
        return manifest
    departures = departures_in(model.path).warnings()
    if manifest.checkpoint:
        departures += compare_sample(model, Path(manifest.checkpoint), is_accepted=request.accept_departures)
    manifest = replace(manifest, departures=tuple(departures))
    (model.path / MANIFEST).write_bytes(manifest.to_bytes())
    return manifest


def _record_drift(
    stage: Staging, model: ModelFolder, manifest: Manifest, origin: Origin
) -> tuple[Manifest, str | None]:
    """Write the drift of a model in int8 into its manifest; else why it was not measured. A model that was added
    before keeps the drift that it has."""
    if not manifest.is_native or manifest.precision != Precision.INT8 or manifest.drift:
        return manifest, None
    if (origin.folder / MANIFEST).is_file() and origin.gguf is None:
        return manifest, "it is a copy of a model, without its checkpoint"
    try:
        with stage.scratch() as scratch:
            log.info("measuring how far int8 is from fp32")
            drift = measure_drift(model, manifest, origin.gguf or origin.folder, scratch)
    except KvjobsError as error:
        return manifest, str(error)
    manifest = replace(manifest, drift=drift)
    (model.path / MANIFEST).write_bytes(manifest.to_bytes())
    return manifest, None


def _record_attention(folder: Path, manifest: Manifest, origin: Origin) -> Manifest:
    """Write by which attention a translation model aligns words into its manifest, unless that says it already."""
    is_translation = ModelKind.of_architecture(manifest.architecture) is ModelKind.TRANSLATION
    if not (manifest.is_native and is_translation) or manifest.attention or manifest.split:
        return manifest
    manifest = replace(manifest, attention=measure_attention(folder, is_guided=has_guided_alignment(origin.folder)))
    (folder / MANIFEST).write_bytes(manifest.to_bytes())
    return manifest


def _record_stand_ins(folder: Path, manifest: Manifest) -> Manifest:
    """Write which words may stand in for placeholders into the manifest of a translation model, unless it says so."""
    is_translation = ModelKind.of_architecture(manifest.architecture) is ModelKind.TRANSLATION
    if not is_translation or manifest.stand_ins is not None:
        return manifest
    manifest = replace(manifest, stand_ins=try_stand_ins(folder))
    (folder / MANIFEST).write_bytes(manifest.to_bytes())
    return manifest


def _name(request: Request) -> str:
    """The name in the request, else the last part of the source with the precision unless that is fp32."""
    name = request.name
    if name is None:
        part = _without_revision(request.source)
        name = os.path.basename(os.path.abspath(part))
        if is_gguf_file(Path(part)):
            name = Path(name).stem
        if request.precision not in (None, Precision.FP32):
            name += f"-{request.precision}"
    if not is_model_name(name):
        raise SpecError(
            f"{name!r} cannot be the name of a model: choose one with --name, without / and without a leading dot"
        )
    return name


def _without_revision(source: str) -> str:
    match = None if os.path.isdir(source) else _HUB_ID.fullmatch(source)
    return match["id"] if match else source


def _find(source: str) -> Origin:
    """The folder or GGUF file named `source`, or a snapshot of the hub's repository."""
    if source and os.path.isdir(source):
        folder = Path(os.path.abspath(source))
        return Origin(folder, str(folder))
    if source and is_gguf_file(file := Path(os.path.abspath(source))):
        return Origin(file.parent, str(file), gguf=file)
    match = _HUB_ID.fullmatch(source)
    if match is None:
        raise NotFoundError(
            f"{source!r} is neither a folder, nor a GGUF file, nor an id of the Hugging Face hub; write OWNER/NAME or "
            "OWNER/NAME@REVISION"
        )
    from worker.model_tools.add.hub import Hub, fetch  # loads the hub's client, which a folder does not need

    snapshot = fetch(match["id"], match["revision"], Hub.of_environment())
    return Origin(snapshot.folder, match["id"], snapshot.commit, snapshot.note)


def _fill(stage: Staging, origin: Origin, request: Request) -> Manifest:
    """Write the model into the staging folder, its manifest last."""
    if (origin.folder / MANIFEST).is_file():
        _refuse_options(request, "was made by `kvjobs models add`")
        manifest = _copy_added(stage.path, origin)
    elif _builds(origin.folder):
        refuse_unknown_graphs(origin.folder)
        if request.checkpoint is not None:
            raise SpecError(f"--checkpoint is for exports, and {request.source} is a checkpoint: leave it out")
        manifest = _build(stage.path, origin, request)
    else:
        _refuse_options(request, "holds graphs that are used as they are")
        export = ModelFolder(origin.source, origin.folder)
        check_files(export)  # before gigabytes are copied
        if kind_of(export) is ModelKind.TRANSLATION:
            if request.checkpoint is not None:
                raise SpecError(f"--checkpoint is for causal models, and {request.source} translates: leave it out")
            manifest = copy_translation_export(stage.path, origin)
        else:
            checkpoint = _checkpoint(origin.folder, request)
            manifest = copy_causal_export(
                stage.path, origin, accepts_departures=request.accept_departures, checkpoint=checkpoint
            )
    (stage.path / MANIFEST).write_bytes(manifest.to_bytes())
    return manifest


def _fill_from_gguf(stage: Staging, origin: Origin, file: Path, request: Request) -> tuple[Manifest, str]:
    """Write the model of a GGUF file into the staging folder, its manifest last; also a remark for the user."""
    for option, value in (("--checkpoint", request.checkpoint), ("--head", request.head)):
        if value is not None:
            raise SpecError(f"{option} does not apply to {request.source}, a causal model in a GGUF file: leave it out")
    if request.keep_gguf and request.precision is not None:
        raise SpecError(f"--precision is for building graphs, and --keep-gguf keeps {request.source}: leave one out")
    if request.keep_gguf:
        manifest, note = keep_gguf(stage.path, origin, file, None)
    else:
        try:
            manifest, note = build_gguf(stage.path, origin, file, request.precision or Precision.FP32)
        except (NoGraphsError, UnknownVocabularyError) as error:
            if request.precision is not None:  # graphs were asked for
                raise
            stage.empty()
            manifest, note = keep_gguf(stage.path, origin, file, str(error))
    (stage.path / MANIFEST).write_bytes(manifest.to_bytes())
    return manifest, note


def _builds(folder: Path) -> bool:
    """Whether the folder is a checkpoint to build graphs from; beside an export, only of a known architecture."""
    if not has_weights(folder):
        return not has_exported_graphs(folder)
    config = folder / CONFIG
    return not has_exported_graphs(folder) or not config.is_file() or architecture_of(read_json(config)) is not None


def _checkpoint(folder: Path, request: Request) -> Path | None:
    """The checkpoint that an export was made from: the one in the request, or weights beside the export."""
    if request.checkpoint is None:
        return folder if has_weights(folder) else None
    named = Path(os.path.abspath(request.checkpoint))
    if not has_weights(named) or not (named / CONFIG).is_file():
        raise SpecError(
            f"--checkpoint {request.checkpoint} is not a folder with a checkpoint, that is, config.json and weights"
        )
    return named


def _build(folder: Path, origin: Origin, request: Request) -> Manifest:
    """Write native graphs."""
    checkpoint = Checkpoint.open(origin.folder)
    precision = request.precision or Precision.FP32
    if checkpoint.kind is ModelKind.TRANSLATION:
        return build_translation(folder, origin, checkpoint, precision, request.head)
    if request.head is not None:
        raise SpecError(
            f"--head is a choice for translation models, and {request.source} is {checkpoint.kind.noun}: leave it out"
        )
    build = build_cross_encoder if checkpoint.kind is ModelKind.CROSS_ENCODER else build_causal
    return build(folder, origin, checkpoint, precision)


def _copy_added(folder: Path, origin: Origin) -> Manifest:
    """Copy a model that was added before, exactly the files of its manifest."""
    manifest = Manifest.read(origin.folder)
    for difference in manifest.differences(origin.folder):
        raise ModelError(difference)
    if ModelKind.of_architecture(manifest.architecture) is not ModelKind.TRANSLATION and not manifest.is_gguf:
        try_tokenizer(origin.folder)
    origin.copy(manifest.files, folder)
    return manifest


def _refuse_options(request: Request, why: str) -> None:
    for option, value in (("--precision", request.precision), ("--head", request.head)):
        if value is not None:
            raise SpecError(
                f"{option} {value} is a choice for building graphs, and {request.source} {why}: leave it out, or name "
                "the checkpoint"
            )
