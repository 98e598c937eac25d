"""
kvjobs.json: the manifest that `kvjobs models add` writes into a model's folder: what the model is, what it was made
from, and its files.

Knows: the fields. Does not know: graphs. Needs only the standard library: commands that read it have to start at once.
The same input gives the same bytes.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

from jobs.errors import ModelError
from worker.models.drift import AnyDrift, read_drift
from worker.text.marks.known_words import NO_STAND_INS, StandIns

MANIFEST = "kvjobs.json"
FORMAT = 1
GGUF = "gguf"
LAYOUTS = ("kv", "optimum", GGUF)

_SHA256 = re.compile("[0-9a-f]{64}")
_MEASURED = re.compile(rb'^  "(?:attention|drift|stand_ins)": .*\n', re.MULTILINE)


def is_gguf(folder: Path) -> bool:
    """Whether the manifest of `folder` says that it holds a GGUF file as it is. Raises ModelError if it is damaged."""
    return (folder / MANIFEST).is_file() and Manifest.read(folder).is_gguf


def has_native_graphs(folder: Path) -> bool:
    """Whether the manifest of `folder` says that its graphs are native; False without a manifest, as some exports are.
    Raises ModelError if it is damaged."""
    return (folder / MANIFEST).is_file() and Manifest.read(folder).is_native


def read_stand_ins(folder: Path) -> StandIns:
    """Those of the manifest of `folder`; none without a manifest, as some exports are. Raises ModelError if it is
    damaged."""
    found = Manifest.read(folder).stand_ins if (folder / MANIFEST).is_file() else None
    return found or NO_STAND_INS


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The expected content of a file."""

    sha256: str
    bytes: int

    @classmethod
    def of(cls, file: Path) -> Self:
        return cls(sha256_of(file), file.stat().st_size)


@dataclass(frozen=True, slots=True)
class StagePlace:
    """A stage of a split model."""

    layers: int  # how many; of a translation model the first stage is the encoder, the others are of the decoder
    device: str  # cpu | cuda:N


@dataclass(frozen=True, slots=True)
class Split:
    """How a model is split, and where its stages run."""

    model: str  # the name of the model that was split
    stages: tuple[StagePlace, ...]
    separate: bool = False  # each stage in a process of its own
    memory_limit: int | None = None  # bytes that each of these processes may allocate; None: no limit

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """As `kvjobs.json` has it; raises KeyError, TypeError or ValueError where it is damaged."""
        stages = tuple(StagePlace(int(stage["layers"]), str(stage["device"])) for stage in content["stages"])
        if not stages or min(stage.layers for stage in stages) < 1:
            raise ValueError("a stage without layers")
        limit = content["memory_limit"]
        return cls(str(content["model"]), stages, content["separate"] is True, None if limit is None else int(limit))

    def layers(self, first: int = 0) -> tuple[range, ...]:
        """The layers of each stage from the stage `first` on, whose own begin at 0."""
        counts = [stage.layers for stage in self.stages[first:]]
        return tuple(range(end - count, end) for count, end in zip(counts, accumulate(counts), strict=True))


@dataclass(frozen=True, slots=True)
class AttentionChoice:
    """Which weights of a translation model's cross-attention tell which words belong together."""

    layers: tuple[int, ...]  # of the decoder, from 0; the mean of their weights is taken
    reads: bool  # a token is aligned by the step that reads it; else by the step that writes it
    agreement: float | None = None  # as measured when the model was added, 0 to 1; None: not measured
    head: int | None = None  # of the only layer, from 0; None: the mean of all heads

    @classmethod
    def unmeasured(cls, num_layers: int) -> Self:
        """For models that were added without a measurement: the mean of all layers, at the step that writes."""
        return cls(tuple(range(num_layers)), reads=False)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """As `kvjobs.json` has it; raises KeyError, TypeError or ValueError where it is damaged."""
        layers, agreement = tuple(map(int, content["layers"])), content["agreement"]
        head = content.get("head")  # manifests of earlier versions have none
        if not layers or min(layers) < 0:
            raise ValueError("attention without layers")
        if head is not None and (len(layers) > 1 or int(head) < 0):
            raise ValueError("attention with a head that no layer has")
        agreement, head = None if agreement is None else float(agreement), None if head is None else int(head)
        return cls(layers, content["reads"] is True, agreement, head)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The fields of kvjobs.json."""

    layout: str  # kv: native graphs; optimum: exported graphs; gguf: a GGUF file, which llama.cpp runs
    architecture: str  # model_type in config.json, of an export too
    precision: str | None  # fp32, int8, fp16; of a GGUF file, as it is quantized (Q4_K_M); None: the export's
    head: str | None  # full: the head has every target id; target: the ids of target.spm; None: causal, or exported
    head_ids: tuple[int, ...] | None  # by row of the head, its target id; None: row i is id i
    source: str  # repository id on the Hugging Face hub, or absolute path of a folder or a GGUF file
    revision: str | None  # commit on the hub
    source_files: Mapping[str, str]  # sha256 of each source file that was read
    files: Mapping[str, FileRecord]  # of this folder, by relative path; all but kvjobs.json
    versions: Mapping[str, str]  # of the packages that wrote the model
    # Of an export: whether it may run although its graph contradicts its configuration; and how the two differ, one
    # sentence each, as found when it was added.
    accepts_departures: bool = False
    departures: tuple[str, ...] = ()
    checkpoint: str | None = None  # absolute path of the checkpoint that the export was compared with
    split: Split | None = None  # None: in one piece
    drift: AnyDrift | None = None  # from fp32; None: not measured, or not in int8
    attention: AttentionChoice | None = None  # of a translation model; None: not measured, or an export
    stand_ins: StandIns | None = None  # of a translation model; None: not tried

    @property
    def is_native(self) -> bool:
        """Whether its graphs are native, not exported."""
        return self.layout == "kv"

    @property
    def is_gguf(self) -> bool:
        """Whether it is a GGUF file as it is, without graphs."""
        return self.layout == GGUF

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The manifest of a folder; raise ModelError where it is damaged, or written by a later kvjobs."""
        file = folder / MANIFEST
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise ModelError(f"{file} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise ModelError(f"{file} is not JSON ({error}): add the model again") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            found = content.get("format") if isinstance(content, dict) else None
            raise ModelError(
                f"{file} has format {found!r}, and this kvjobs reads {FORMAT}: upgrade kvjobs, or add the model again"
            )
        try:
            return cls._of(content)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelError(f"{file} lacks a field or has an invalid one ({error}): add the model again") from error

    def to_bytes(self) -> bytes:
        """The content of kvjobs.json: one line a field, sorted by name."""
        fields = {"format": FORMAT, **asdict(self)}
        if self.split is None:
            del fields["split"]  # so that manifests of models in one piece stay as in earlier versions
        if self.drift is None:
            del fields["drift"]
        if self.attention is None:
            del fields["attention"]
        if self.stand_ins is None:
            del fields["stand_ins"]
        lines = (
            f"  {json.dumps(name)}: {json.dumps(fields[name], sort_keys=True, ensure_ascii=False)}"
            for name in sorted(fields)
        )
        return ("{\n" + ",\n".join(lines) + "\n}\n").encode()

    def differences(self, folder: Path) -> Iterator[str]:
        """Files that are missing in a folder or differ from the manifest, one sentence each; reads every byte."""
        for name, record in self.files.items():
            file = folder / name
            try:
                found = FileRecord.of(file)
            except FileNotFoundError:
                yield f"{file} is missing, and {MANIFEST} lists it: add the model again"
            except OSError as error:
                yield f"{file} cannot be read: {error.strerror}"
            else:
                if found.bytes != record.bytes:
                    yield (
                        f"{file} has {found.bytes:,} bytes, and {MANIFEST} says {record.bytes:,}: add the model again"
                    )
                elif found != record:
                    yield f"{file} has another checksum than {MANIFEST} says: the file is damaged, or was changed"

    @classmethod
    def _of(cls, content: Mapping[str, Any]) -> Self:
        if content["layout"] not in LAYOUTS:
            raise ValueError(f"layout {content['layout']!r}")
        head_ids = content["head_ids"]
        files = {str(name): FileRecord(**record) for name, record in content["files"].items()}
        for name, record in files.items():
            if Path(name).is_absolute() or ".." in Path(name).parts or not _SHA256.fullmatch(record.sha256):
                raise ValueError(f"file {name!r}")
        return cls(
            layout=content["layout"],
            architecture=str(content["architecture"]),
            precision=content["precision"],
            head=content["head"],
            head_ids=None if head_ids is None else tuple(map(int, head_ids)),
            source=str(content["source"]),
            revision=content["revision"],
            source_files=dict(content["source_files"]),
            files=files,
            versions=dict(content["versions"]),
            accepts_departures=content.get("accepts_departures") is True,
            departures=tuple(map(str, content.get("departures", ()))),
            checkpoint=str(content["checkpoint"]) if content.get("checkpoint") else None,
            split=Split.of(content["split"]) if content.get("split") else None,
            drift=read_drift(content["drift"]) if content.get("drift") else None,
            attention=AttentionChoice.of(content["attention"]) if content.get("attention") else None,
            stand_ins=StandIns.of(content["stand_ins"]) if content.get("stand_ins") else None,
        )


def deciding_content(content: bytes) -> bytes:
    """The bytes of kvjobs.json without what was measured or tried: that depends on the processor, and a model has the
    same revision on every machine."""
    return _MEASURED.sub(b"", content)


def records(folder: Path, names: Iterable[str]) -> dict[str, FileRecord]:
    """The records of some files of a folder, by name."""
    return {name: FileRecord.of(folder / name) for name in sorted(names)}


def sha256_of(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
