"""Which graphs and weights lie in a folder, by the names of its files. Needs only the standard library."""

from pathlib import Path

from worker.models.file_names import CAUSAL_GRAPH, CHECKPOINT, ENCODER, graph_places
from worker.models.layout.causal_config import genai_filename


def has_weights(path: Path) -> bool:
    """Whether a folder holds the weights of a checkpoint, in any of the known files."""
    return any((path / name).is_file() for name in CHECKPOINT)


def has_exported_graphs(path: Path) -> bool:
    """Whether a folder holds graphs of an export."""
    return has_graph(path, ENCODER) or has_graph(path, causal_graph_name(path))


def has_graph(path: Path, name: str) -> bool:
    """Whether the graph is in the folder, or in its folder `onnx`."""
    return any((place / name).is_file() for place in graph_places(path))


def graph_place(path: Path, name: str) -> Path:
    """The folder that holds the graph `name` of an export: the model's folder, or the folder `onnx` in it."""
    folder, inner = graph_places(path)
    return folder if (folder / name).is_file() or not inner.is_dir() else inner


def causal_graph_name(path: Path) -> str:
    """The file name of a causal export's graph: the one in genai_config.json, else that of all other exporters."""
    return genai_filename(path) or CAUSAL_GRAPH
