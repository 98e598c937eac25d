"""
The description of a model folder: its files, its graphs, and their problems.

Knows: files, sessions. Does not know: what a graph is for.
"""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.errors import ModelError
from worker.engine.runtime.session import open_session
from worker.model_tools.inspect.stages import StageDescription
from worker.models.checkpoint.gguf_network import StoredType
from worker.models.drift import AnyDrift
from worker.models.file_names import graph_places
from worker.models.layout.graph_signature import GraphSignature, Tensor, read_header


@dataclass(frozen=True, slots=True)
class FileSize:
    """One file of a model folder."""

    name: str  # relative to the folder
    num_bytes: int


@dataclass(frozen=True, slots=True)
class GraphDescription:
    """One ONNX file: its inputs and outputs, or why they cannot be read."""

    file: str  # relative to the folder
    is_used: bool  # by the layout; a folder may have other graphs
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    ir_version: int | None  # None: the file is not a graph; then opsets and producer are empty
    opsets: Mapping[str, int]  # version by domain; the domain of ONNX itself is ""
    producer: str | None
    problem: str | None  # why onnxruntime cannot open it


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """A model folder. None: could not be read, or does not apply to the model."""

    name: str
    path: str
    kind: str  # translation | causal | cross-encoder
    revision: str | None = None
    layout: str | None = None  # kv | gguf | merged | two decoders | with past | no cache
    conclusion: str | None = None  # how a model of this layout runs
    precision: str | None = None  # of the products, from the manifest; of a GGUF file Q4_K_M ...
    drift: AnyDrift | None = None  # of a model in int8 from fp32, as it was measured when it was added
    source: str | None = None  # the source from which `models add` made it
    source_revision: str | None = None
    num_layers: int | None = None  # of the cache, like the three below
    num_heads: int | None = None  # K, of keys and values
    head_size: int | None = None  # H
    cache_dtype: str | None = None
    width: int | None = None  # D
    max_positions: int | None = None  # tokens of a source and of a target; of a causal model, of a sequence
    graphs: tuple[GraphDescription, ...]
    files: tuple[FileSize, ...]
    problems: tuple[str, ...]  # why it cannot run; empty: it can

    # Of a translation model.
    head: str | None = None  # full | target
    source_vocab_size: int | None = None
    target_vocab_size: int | None = None
    num_target_ids: int | None = None  # of the head: all ids, or the ids that it keeps
    languages: tuple[str, ...] = ()  # target labels, sorted; empty: a single target language
    unlisted_pad_id: int | None = (
        None  # the id of padding, where kvjobs never generates it though the model's settings allow it
    )

    # Of a causal model.
    architecture: str | None = None
    num_query_heads: int | None = None  # N
    vocab_size: int | None = None  # V of the model; its tokenizer may use fewer
    warnings: tuple[str, ...] = ()  # departures of an export from its configuration
    split_of: str | None = None  # the model that was split
    stages: tuple[StageDescription, ...] = ()  # of a split model
    stored_types: tuple[StoredType, ...] = ()  # how the weights of a GGUF file are stored
    cache_bytes: int | None = None  # per token, of a GGUF file
    adds_bos: bool | None = None  # of a GGUF file: whether it puts its BOS before a text; None: llama.cpp's rule
    has_chat_template: bool | None = None  # of a causal model: whether submit --chat can be given; None: unknown
    bos_id: int | None = None
    eos_id: int | None = None

    # Of a cross-encoder.
    relevance: str | None = None  # how a score is made of a logit, a clause
    pair_length: int | None = None  # of a query with a candidate, in tokens, where a job asks for no other

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class OpenedGraphs:
    """The graphs of a folder: by file, its signature if it can be read, and its problem if it cannot be opened."""

    folder: Path
    graphs: Mapping[Path, tuple[GraphSignature | None, str | None]]

    @classmethod
    def of(cls, folder: Path) -> "OpenedGraphs":
        """Open them one after the other, with a single session in memory at a time."""
        files = sorted(file for path in graph_places(folder) for file in path.glob("*.onnx") if file.is_file())
        return cls(folder, {file: _open(file) for file in files})

    def readable(self, used: Mapping[str, Path]) -> dict[str, GraphSignature]:
        """The signatures of the files in `used` that can be read, by the same names."""
        signatures = {name: self.graphs[file][0] for name, file in used.items() if file in self.graphs}
        return {name: signature for name, signature in signatures.items() if signature}

    def problems(self, used: Collection[Path]) -> list[str]:
        return [problem for file, (_, problem) in self.graphs.items() if problem and file in used]

    def describe(self, used: Collection[Path]) -> tuple[GraphDescription, ...]:
        return tuple(
            _describe(file, self.folder, graph, problem, file in used) for file, (graph, problem) in self.graphs.items()
        )


@contextmanager
def collecting(problems: list[str]) -> Iterator[None]:
    """Append the message of a ModelError to `problems`, and go on."""
    try:
        yield
    except ModelError as error:
        problems.append(str(error))


def file_sizes(folder: Path) -> tuple[FileSize, ...]:
    """All files of the folder and of its folder `onnx`."""
    files = sorted(file for path in graph_places(folder) for file in path.glob("*") if file.is_file())
    return tuple(FileSize(file.relative_to(folder).as_posix(), file.stat().st_size) for file in files)


def _open(file: Path) -> tuple[GraphSignature | None, str | None]:
    """The signature of a graph, if it can be read, and its problem, if it cannot be opened."""
    try:
        return GraphSignature.of(file, open_session(file)), None
    except ModelError as error:
        header = read_header(file)
        return header.signature(file) if header else None, str(error)


def _describe(
    file: Path, folder: Path, graph: GraphSignature | None, problem: str | None, is_used: bool
) -> GraphDescription:
    header = read_header(file)
    return GraphDescription(
        file=file.relative_to(folder).as_posix(),
        is_used=is_used,
        inputs=tuple(graph.inputs.values()) if graph else (),
        outputs=tuple(graph.outputs.values()) if graph else (),
        ir_version=header.ir_version if header else None,
        opsets=dict(header.opsets) if header else {},
        producer=header.producer if header else None,
        problem=problem,
    )
