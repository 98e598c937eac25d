"""
`kvjobs models split`: make a model in stages of a model with native graphs.

Knows: names, devices, what is copied. Does not know: graphs, where a model is cut.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jobs.errors import SpecError
from jobs.queues import CPU
from worker.engine.causal.open import open_causal_model
from worker.engine.causal.protocol import Group, read_all
from worker.engine.runtime.device import check_device
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.stages import cut_causal, write_stages
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.stages import cut_decoder, write_translation_stages
from worker.model_tools.add.staging import staging, taken_message
from worker.model_tools.inspect.stages import StageDescription, describe_stages, num_target_ids
from worker.models.contents.required_files import check_files
from worker.models.file_names import CONFIG
from worker.models.half_precision import needs_half
from worker.models.json_file import read_json
from worker.models.manifest import MANIFEST, Manifest, Split, StagePlace, records
from worker.models.model_folder import ModelFolder, read_manifest
from worker.models.model_kind import ModelKind
from worker.models.registry import find_model, is_model_name

_GRAPHS = re.compile(r".*\.(onnx|data)")
# Ids that every vocabulary has, to try a model with.
_TEXT = [0, 1, 0, 1]
_SENTENCE = [0, 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRequest:
    """What to split, and how."""

    model: str
    stages: int  # from 2 on
    devices: Sequence[str] = ()  # the device of each stage; one device is for all stages; none: cpu
    name: str | None = None  # of the new model; None: made of the old name
    separate: bool = False  # each stage in a process of its own
    memory_limit: int | None = None  # bytes of each of these processes
    force: bool = False  # replace a model of that name


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitModel:
    """A model that was split."""

    name: str
    path: str
    model: str  # the name of the model that was split
    stages: tuple[StageDescription, ...]
    separate: bool
    memory_limit: int | None
    num_bytes: int
    seconds: float


def split_model(request: SplitRequest, models_dir: Path) -> SplitModel:
    """Make a model of `request.stages` stages in `models_dir`.

    Raises NotFoundError where there is no such model, SpecError for a model that cannot be split so, for a name that is
    invalid or taken and for devices that this machine has not, ModelError where its files are damaged, or a stage does
    not fit into the memory limit, KvjobsError where the disk fails.
    """
    started = time.monotonic()
    folder = find_model(request.model, models_dir)
    manifest = _native_manifest(folder)
    name = request.name or f"{Path(folder.name).name}-{request.stages}-stages"
    if not is_model_name(name):
        raise SpecError(f"{name!r} cannot be the name of a model: choose another, without / and without a leading dot")
    if not request.force and (models_dir / name).exists():
        raise SpecError(taken_message(models_dir / name))
    kind = ModelKind.of_architecture(manifest.architecture)
    if kind is ModelKind.CROSS_ENCODER:
        raise SpecError(f"{folder.name} is {kind.noun}, which runs in one piece: a cross-encoder cannot be split")
    devices = _devices(request, folder, manifest)
    check_files(folder)
    cut = _cut_causal if kind is ModelKind.CAUSAL else _cut_seq2seq
    with staging(models_dir) as stage:
        layers = cut(folder, manifest, stage.path, request.stages)
        places = tuple(StagePlace(count, device) for count, device in zip(layers, devices, strict=True))
        split = Split(folder.name, places, request.separate, request.memory_limit)
        manifest = _write_manifest(folder, manifest, stage.path, split)
        described = describe_stages(stage.path, manifest)
        _try_stages(stage.path, kind)
        path = stage.publish(name, force=request.force)
    return SplitModel(
        name=name,
        path=str(path),
        model=folder.name,
        stages=described,
        separate=split.separate,
        memory_limit=split.memory_limit,
        num_bytes=sum(record.bytes for record in manifest.files.values()),
        seconds=time.monotonic() - started,
    )


def _native_manifest(folder: ModelFolder) -> Manifest:
    """The manifest of a model that can be split."""
    manifest = read_manifest(folder)
    if manifest is None or not manifest.is_native:
        raise SpecError(
            f"{folder.name} has graphs of another tool, and only native graphs can be split: add its checkpoint with "
            "`kvjobs models add`, and split that model"
        )
    if manifest.split is not None:
        raise SpecError(f"{folder.name} is split already: split {manifest.split.model}, of which it was made")
    return manifest


def _devices(request: SplitRequest, folder: ModelFolder, manifest: Manifest) -> list[str]:
    """The device of each stage."""
    devices = [check_device(device) for device in request.devices] or [CPU]
    if len(devices) == 1:
        devices *= request.stages
    if len(devices) != request.stages:
        raise SpecError(
            f"there are {request.stages} stages and {len(devices)} devices: name one for each, or one for all"
        )
    if any(device != CPU for device in devices) and manifest.precision != Precision.FP16:
        raise SpecError(needs_half(folder.name, manifest))
    if request.memory_limit is not None and not request.separate:
        raise SpecError("a memory limit is for stages in processes of their own: add --separate, or leave --memory out")
    return devices


def _write_manifest(folder: ModelFolder, manifest: Manifest, target: Path, split: Split) -> Manifest:
    """Copy all but graphs and weights, and write the manifest, which names the same source."""
    for name in manifest.files:
        if not _GRAPHS.fullmatch(name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((folder.path / name).read_bytes())
    written = [file.relative_to(target).as_posix() for file in target.rglob("*") if file.is_file()]
    manifest = replace(manifest, split=split, files=records(target, written))
    (target / MANIFEST).write_bytes(manifest.to_bytes())
    return manifest


def _cut_causal(folder: ModelFolder, manifest: Manifest, target: Path, stages: int) -> tuple[int, ...]:
    """Write the stages of a causal model, cut between two layers, into `target`; how many layers each has. Raises
    SpecError where the model has too few, ModelError where it is damaged."""
    sizes = read_sizes(read_json(folder.path / CONFIG))
    _check_stages(folder, f"{sizes.layers} layers", stages, sizes.layers)
    layers = cut_causal(sizes, stages)
    write_stages(folder.path, target, sizes, Precision(manifest.precision or Precision.FP32), layers)
    return tuple(map(len, layers))


def _cut_seq2seq(folder: ModelFolder, manifest: Manifest, target: Path, stages: int) -> tuple[int, ...]:
    """As `_cut_causal`: the encoder is the first stage, the decoder is cut between two layers."""
    config = read_json(folder.path / CONFIG)
    network = read_network(config)
    has = f"an encoder and {network.decoder_layers} decoder layers"
    _check_stages(folder, has, stages, network.decoder_layers + 1)
    layers = cut_decoder(config, num_target_ids(config, manifest), stages)
    write_translation_stages(folder.path, target, config, Precision(manifest.precision or Precision.FP32), layers)
    return network.encoder_layers, *map(len, layers)


def _try_stages(folder: Path, kind: ModelKind) -> None:
    """Open every stage as a worker does, and give it a few tokens. Raises what that raises: ModelError where a stage
    cannot be opened, StageDied where its process ended."""
    if kind is ModelKind.CAUSAL:
        read_all(open_causal_model(folder).new_reader(), [Group([], [_TEXT])], RunContext())
    else:
        model = open_seq2seq_model(folder)
        list(model.new_decoder().decode([_SENTENCE], model.generation, RunContext(), batch_size=1))


def _check_stages(folder: ModelFolder, has: str, stages: int, most: int) -> None:
    """Raise SpecError where a model is to have more stages than it can; `has`: the parts between which it is cut."""
    if stages > most:
        raise SpecError(f"{folder.name} has {has}, so it can be split into {most} stages at most")
