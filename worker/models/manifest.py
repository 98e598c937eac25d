"""
kvjobs.json: what a model that `kvjobs models add` made is, what it was made from, and what lies in its folder.

Knows: its fields. Does not know: graphs. Loads neither onnxruntime nor numpy: names of models are asked for by
commands that have to start at once. Nothing in it changes from one run to the next: same input, same bytes.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from jobs.errors import ModelError

MANIFEST = "kvjobs.json"
FORMAT = 1
LAYOUTS = ("kv", "optimum")

_SHA256 = re.compile("[0-9a-f]{64}")


def has_native_graphs(folder: Path) -> bool:
    """Whether the manifest of `folder` says so; an export may have none. Raises ModelError where it is damaged."""
    return (folder / MANIFEST).is_file() and Manifest.read(folder).is_native


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What a file has to be."""

    sha256: str
    bytes: int

    @classmethod
    def of(cls, file: Path) -> Self:
        return cls(sha256_of(file), file.stat().st_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The fields of kvjobs.json."""

    layout: str  # kv: graphs of our own; optimum: as they were exported
    architecture: str  # marian, llama, mistral, qwen2, qwen3; of an export, whatever config.json calls model_type
    precision: str | None  # fp32, int8, fp16; None: what the export chose
    head: str | None  # full: every target id can come out; target: those that the target language needs; causal: None
    head_ids: tuple[int, ...] | None  # row of the head -> target id; None: they are the same
    source: str  # id on the hub, or absolute path of the folder
    revision: str | None  # the hub's commit
    source_files: Mapping[str, str]  # sha256 of each file that was read
    files: Mapping[str, FileRecord]  # of this folder, by path; all but kvjobs.json
    versions: Mapping[str, str]  # of what wrote it
    # Of an export: whether it runs although its graph contradicts its configuration, and all that was known when it was
    # added of how the two differ, a sentence each.
    accepts_departures: bool = False
    departures: tuple[str, ...] = ()
    checkpoint: str | None = None  # absolute path of the checkpoint that an export was compared with

    @property
    def is_native(self) -> bool:
        """Whether its graphs are native, not exported."""
        return self.layout == "kv"

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The manifest of a folder; raise ModelError where it is damaged or of a later kvjobs."""
        file = folder / MANIFEST
        try:
            said = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise ModelError(f"{file} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise ModelError(f"{file} is not JSON ({error}): add the model again") from error
        if not isinstance(said, dict) or said.get("format") != FORMAT:
            found = said.get("format") if isinstance(said, dict) else None
            raise ModelError(f"{file} has format {found!r}, and this kvjobs reads {FORMAT}: upgrade it, or add again")
        try:
            return cls._of(said)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelError(f"{file} lacks a field, or has one that makes no sense ({error}): add it again") from error

    def to_bytes(self) -> bytes:
        """As it stands in the file: a line for each field, in the order of their names."""
        fields = {"format": FORMAT, **asdict(self)}
        lines = (
            f"  {json.dumps(name)}: {json.dumps(fields[name], sort_keys=True, ensure_ascii=False)}"
            for name in sorted(fields)
        )
        return ("{\n" + ",\n".join(lines) + "\n}\n").encode()

    def differences(self, folder: Path) -> Iterator[str]:
        """What is missing in a folder or is not what was written there, a sentence each; reads every byte."""
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
                    yield f"{file} has another checksum than {MANIFEST} says: it is damaged, or was changed"

    @classmethod
    def _of(cls, said: Mapping[str, Any]) -> Self:
        if said["layout"] not in LAYOUTS:
            raise ValueError(f"layout {said['layout']!r}")
        head_ids = said["head_ids"]
        files = {str(name): FileRecord(**record) for name, record in said["files"].items()}
        for name, record in files.items():
            if Path(name).is_absolute() or ".." in Path(name).parts or not _SHA256.fullmatch(record.sha256):
                raise ValueError(f"file {name!r}")
        return cls(
            layout=said["layout"],
            architecture=str(said["architecture"]),
            precision=said["precision"],
            head=said["head"],
            head_ids=None if head_ids is None else tuple(map(int, head_ids)),
            source=str(said["source"]),
            revision=said["revision"],
            source_files=dict(said["source_files"]),
            files=files,
            versions=dict(said["versions"]),
            accepts_departures=said.get("accepts_departures") is True,
            departures=tuple(map(str, said.get("departures", ()))),
            checkpoint=str(said["checkpoint"]) if said.get("checkpoint") else None,
        )


def records(folder: Path, names: Iterable[str]) -> dict[str, FileRecord]:
    """What these files of a folder are, by name."""
    return {name: FileRecord.of(folder / name) for name in sorted(names)}


def sha256_of(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
