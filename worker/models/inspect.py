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
from worker.models.layouts import Graph, Layout, Tensor, find_graphs, read_layout
from worker.models.registry import ModelFolder, check_files
from worker.text.marian import MarianTokenizer


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
    problem: str | None  # what onnxruntime has against it


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model folder. None is what could not be read, or what the model does not have."""

    name: str
    path: str
    revision: str | None
    layout: str | None  # merged | two decoders | no cache
    num_layers: int | None  # of the cache, like the three below
    num_heads: int | None  # K, of keys and values
    head_size: int | None  # H
    cache_dtype: str | None
    width: int | None  # D
    max_positions: int | None  # of source and of target
    source_vocab_size: int | None
    target_vocab_size: int | None
    languages: tuple[str, ...]  # target labels, sorted; empty: a single target language
    graphs: tuple[GraphDescription, ...]
    files: tuple[FileSize, ...]
    problems: tuple[str, ...]  # why it cannot be run; empty: it can

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


def inspect_model(folder: ModelFolder) -> ModelDescription:
    """Open every graph of a folder, one after the other, and say what it is and whether it runs."""
    problems: list[str] = []
    with _noting(problems):
        check_files(folder)
    consequences = [] if problems else problems  # a file that is missing is said once
    used: Mapping[str, Path] = {}
    with _noting(consequences):
        used = find_graphs(folder.path)
    opened = {file: _open(file) for file in _graph_files(folder.path)}
    problems += [problem for file, (_, problem) in opened.items() if problem and file in used.values()]

    config: Mapping[str, Any] = {}
    with _noting(consequences):
        config = read_json(folder.path / "config.json")
    layout: Layout | None = None
    readable = {name: graph for name, file in used.items() if (graph := opened[file][0])}
    if used and len(readable) == len(used):
        with _noting(problems):
            layout = read_layout(readable, config)
    languages: frozenset[str] = frozenset()
    with _noting(consequences):
        languages = MarianTokenizer.open(folder.path).languages
    revision, max_positions = None, config.get("max_position_embeddings")
    with _noting(problems):
        revision = folder.revision()
    if layout and not problems:
        with _noting(problems):  # what only shows at the first step: settings of the search, a past that is refused
            max_positions = open_network(folder.path).max_positions

    cache = layout.cache if layout else None
    return ModelDescription(
        name=folder.name,
        path=str(folder.path),
        revision=revision,
        layout=str(layout.kind) if layout else None,
        num_layers=cache.num_layers if cache else None,
        num_heads=cache.num_heads if cache else None,
        head_size=cache.head_size if cache else None,
        cache_dtype=str(cache.dtype) if cache else None,
        width=layout.width if layout else None,
        max_positions=max_positions,
        source_vocab_size=config.get("vocab_size"),
        target_vocab_size=layout.vocab_size if layout else None,
        languages=tuple(sorted(languages)),
        graphs=tuple(
            _describe(file, folder.path, graph, problem, file in used.values())
            for file, (graph, problem) in opened.items()
        ),
        files=tuple(_sizes(folder.path)),
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
    """What a graph says of itself, or what is wrong with it. Its session is closed again: one is open at a time."""
    try:
        return Graph.of(file, open_session(file)), None
    except ModelError as error:
        return None, str(error)


def _describe(file: Path, folder: Path, graph: Graph | None, problem: str | None, is_used: bool) -> GraphDescription:
    return GraphDescription(
        file=file.relative_to(folder).as_posix(),
        is_used=is_used,
        inputs=tuple(graph.inputs.values()) if graph else (),
        outputs=tuple(graph.outputs.values()) if graph else (),
        problem=problem,
    )


def _graph_files(folder: Path) -> list[Path]:
    return sorted(file for place in (folder, folder / "onnx") for file in place.glob("*.onnx") if file.is_file())


def _sizes(folder: Path) -> Iterator[FileSize]:
    for file in sorted(file for place in (folder, folder / "onnx") for file in place.glob("*") if file.is_file()):
        yield FileSize(file.relative_to(folder).as_posix(), file.stat().st_size)
