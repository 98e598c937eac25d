"""Everything a person may want to know about a model folder: what `kvjobs models inspect` shows.

Knows: graphs, configuration, vocabulary, files. Does not know: how to print.
Nothing here raises for what is wrong with a model: it is said, beside all that could be read.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.errors import ModelError
from worker.engine.generation import read_json
from worker.engine.network import open_network
from worker.engine.session import open_session
from worker.graphs.marian import DECODER as KV_DECODER
from worker.graphs.marian import ENCODER as KV_ENCODER
from worker.graphs.marian_weights import MarianSizes
from worker.models.graph_file import read_head
from worker.models.layouts import Graph, Kind, Layout, Tensor, find_graphs, read_layout
from worker.models.manifest import Manifest
from worker.models.registry import ADD, EXPORT, ModelFolder, check_files, has_weights, read_manifest
from worker.text.marian import MarianTokenizer

_RUNS = {
    "kv": "runs with a cache that rows share and leave one by one: a slot is filled again as soon as its sentence ends",
    Kind.MERGED: "runs with a cache: one decoder for the first step and the later ones (input use_cache_branch)",
    Kind.TWO_DECODERS: "runs with a cache: decoder_model.onnx makes the first step, decoder_with_past_model.onnx the "
    "later ones",
    Kind.NO_CACHE: "runs without a cache, each step over the whole beginning again: no input past_key_values.* is "
    f"there. For a cache, build graphs of the checkpoint with `{ADD} CHECKPOINT`, or export it with `{EXPORT}`",
}


@dataclass(frozen=True, slots=True)
class FileSize:
    """One file of a model folder."""

    name: str  # relative to the folder
    num_bytes: int


@dataclass(frozen=True, slots=True)
class GraphDescription:
    """One ONNX file: its inputs and outputs, or why it has none to show."""

    file: str  # relative to the folder
    is_used: bool  # by the layout; other graphs may lie in the folder
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    ir_version: int | None  # None, like the two below: the file is no graph
    opsets: Mapping[str, int]  # version by domain; that of ONNX itself is ""
    producer: str | None
    problem: str | None  # what onnxruntime has against it


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """A model folder. None is what could not be read, or what the model does not have."""

    name: str
    path: str
    revision: str | None
    layout: str | None  # kv | merged | two decoders | no cache
    conclusion: str | None  # what was concluded from the graphs: how it runs
    precision: str | None  # what products are computed in, as the manifest says
    head: str | None  # full | target
    source: str | None  # of which `models add` made it
    source_revision: str | None
    num_layers: int | None  # of the cache, like the three below
    num_heads: int | None  # K, of keys and values
    head_size: int | None  # H
    cache_dtype: str | None
    width: int | None  # D
    max_positions: int | None  # of source and of target
    source_vocab_size: int | None
    target_vocab_size: int | None
    num_target_ids: int | None  # that can come out: all, or those that the head keeps
    languages: tuple[str, ...]  # target labels, sorted; empty: a single target language
    graphs: tuple[GraphDescription, ...]
    files: tuple[FileSize, ...]
    problems: tuple[str, ...]  # why it cannot be run; empty: it can

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """What graphs and config.json say of the network."""

    layout: str
    num_layers: int | None = None
    num_heads: int | None = None
    head_size: int | None = None
    cache_dtype: str | None = None
    width: int | None = None
    target_vocab_size: int | None = None


def inspect_model(folder: ModelFolder) -> ModelDescription:
    """Open every graph of a folder, one after the other, and say what it is and whether it runs."""
    problems: list[str] = []
    manifest: Manifest | None = None
    with _noting(problems):
        manifest = read_manifest(folder)
        check_files(folder)
    consequences = [] if problems else problems  # a file that is missing is said once
    is_ours = manifest is not None and manifest.layout == "kv"
    used: Mapping[str, Path] = {}
    with _noting(consequences):
        used = _our_graphs(folder.path, manifest) if manifest and is_ours else find_graphs(folder.path)
    opened = {file: _open(file) for file in _graph_files(folder.path)}
    if manifest is not None:
        consequences += manifest.differences(folder.path)
    follows = consequences if is_ours else problems  # graphs of ours share one file of weights
    follows += [problem for file, (_, problem) in opened.items() if problem and file in used.values()]

    config: Mapping[str, Any] = {}
    with _noting(consequences):
        config = read_json(folder.path / "config.json")
    sizes: _Sizes | None = None
    readable = {name: opened[file][0] for name, file in used.items() if file in opened}
    graphs = {name: graph for name, graph in readable.items() if graph}
    if used and len(graphs) == len(used):
        with _noting(follows):
            sizes = _kv_sizes(graphs, config) if is_ours else _export_sizes(read_layout(graphs, config))
    languages: frozenset[str] = frozenset()
    with _noting(consequences):
        languages = MarianTokenizer.open(folder.path).languages
    revision, max_positions = None, config.get("max_position_embeddings")
    with _noting(problems):
        revision = folder.revision()
    if sizes and not problems:
        with _noting(problems):  # what only shows at the first step: settings of the search, a past that is refused
            max_positions = open_network(folder.path).max_positions
    if not used and not is_ours and has_weights(folder.path):
        problems[:] = problems[:1]  # a checkpoint, and how it becomes a model: all else follows from it

    full = config.get("decoder_vocab_size") or config.get("vocab_size")
    head_ids = manifest.head_ids if manifest else None
    return ModelDescription(
        name=folder.name,
        path=str(folder.path),
        revision=revision,
        layout=sizes.layout if sizes else manifest.layout if manifest and is_ours else None,
        conclusion=_RUNS[sizes.layout] if sizes and not problems else None,
        precision=manifest.precision if manifest else None,
        head=manifest.head if manifest else None,
        source=manifest.source if manifest else None,
        source_revision=manifest.revision if manifest else None,
        num_layers=sizes.num_layers if sizes else None,
        num_heads=sizes.num_heads if sizes else None,
        head_size=sizes.head_size if sizes else None,
        cache_dtype=sizes.cache_dtype if sizes else None,
        width=sizes.width if sizes else None,
        max_positions=max_positions,
        source_vocab_size=config.get("vocab_size"),
        target_vocab_size=sizes.target_vocab_size if sizes else None,
        num_target_ids=len(head_ids) if head_ids is not None else full,
        languages=tuple(sorted(languages)),
        graphs=tuple(
            _describe(file, folder.path, graph, problem, file in used.values())
            for file, (graph, problem) in opened.items()
        ),
        files=tuple(_file_sizes(folder.path)),
        problems=tuple(problems),
    )


@contextmanager
def _noting(problems: list[str]) -> Iterator[None]:
    """Go on after a ModelError, and keep what it says."""
    try:
        yield
    except ModelError as error:
        problems.append(str(error))


def _open(file: Path) -> tuple[Graph | None, str | None]:
    """What a graph says of itself, and what is wrong with it. Its session is closed again: one is open at a time."""
    try:
        return Graph.of(file, open_session(file)), None
    except ModelError as error:
        head = read_head(file)
        return head.graph(file) if head else None, str(error)


def _our_graphs(folder: Path, manifest: Manifest) -> dict[str, Path]:
    names = {KV_ENCODER, KV_DECODER} | {name for name in manifest.files if name.endswith(".onnx")}
    return {name: folder / name for name in names}


def _export_sizes(layout: Layout) -> _Sizes:
    cache = layout.cache
    return _Sizes(
        layout=layout.kind,
        num_layers=cache.num_layers if cache else None,
        num_heads=cache.num_heads if cache else None,
        head_size=cache.head_size if cache else None,
        cache_dtype=str(cache.dtype) if cache else None,
        width=layout.width,
        target_vocab_size=layout.vocab_size,
    )


def _kv_sizes(graphs: Mapping[str, Graph], config: Mapping[str, Any]) -> _Sizes:
    """From the decoder's inputs; config.json says the rest."""
    sizes = MarianSizes.read(config)
    past = graphs[KV_DECODER].inputs.get("past.0.key")
    if past is None:
        raise ModelError(f"{graphs[KV_DECODER].file} lacks the input past.0.key: add the model again")
    return _Sizes(
        layout="kv",
        num_layers=sum(name.startswith("past.") and name.endswith(".key") for name in graphs[KV_DECODER].inputs),
        num_heads=sizes.heads,
        head_size=sizes.head_size,
        cache_dtype={"tensor(float)": "float32", "tensor(float16)": "float16"}.get(past.type, past.type),
        width=sizes.width,
        target_vocab_size=config.get("decoder_vocab_size") or config.get("vocab_size"),
    )


def _describe(file: Path, folder: Path, graph: Graph | None, problem: str | None, is_used: bool) -> GraphDescription:
    head = read_head(file)
    return GraphDescription(
        file=file.relative_to(folder).as_posix(),
        is_used=is_used,
        inputs=tuple(graph.inputs.values()) if graph else (),
        outputs=tuple(graph.outputs.values()) if graph else (),
        ir_version=head.ir_version if head else None,
        opsets=dict(head.opsets) if head else {},
        producer=head.producer if head else None,
        problem=problem,
    )


def _graph_files(folder: Path) -> list[Path]:
    return sorted(file for place in (folder, folder / "onnx") for file in place.glob("*.onnx") if file.is_file())


def _file_sizes(folder: Path) -> Iterator[FileSize]:
    for file in sorted(file for place in (folder, folder / "onnx") for file in place.glob("*") if file.is_file()):
        yield FileSize(file.relative_to(folder).as_posix(), file.stat().st_size)
