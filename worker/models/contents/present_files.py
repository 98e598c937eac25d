"""Which graphs and weights lie in a folder, and which kind of model they make. Needs only the standard library."""

from pathlib import Path

from worker.models.file_names import CAUSAL_GRAPH, CHECKPOINT, CONFIG, ENCODER, GENAI_CONFIG, graph_places
from worker.models.json_file import read_json_or_empty
from worker.models.layout.causal_config import genai_filename
from worker.models.model_folder import ModelFolder, read_manifest
from worker.models.model_kind import ModelKind, names_causal, names_cross_encoder


def has_weights(path: Path) -> bool:
    """Whether a folder holds the weights of a checkpoint, in any of the known files."""
    return any((path / name).is_file() for name in CHECKPOINT)


def has_exported_graphs(path: Path) -> bool:
    """Whether a folder holds graphs of an export."""
    return has_graph(path, ENCODER) or has_graph(path, causal_graph_name(path))


def has_graph(path: Path, name: str) -> bool:
    """Whether the graph is in the folder, or in its folder `onnx`."""
    return any((part / name).is_file() for part in graph_places(path))


def graph_place(path: Path, name: str) -> Path:
    """The folder that holds the graph `name` of an export: the model's folder, or the folder `onnx` in it."""
    folder, inner = graph_places(path)
    return folder if (folder / name).is_file() or not inner.is_dir() else inner


def causal_graph_name(path: Path) -> str:
    """The file name of a causal export's graph: as genai_config.json says, else as all other exporters call it."""
    return genai_filename(path) or CAUSAL_GRAPH


def kind_of(folder: ModelFolder) -> ModelKind:
    """The kind of the model in a folder: by its manifest, else by the names of its graphs and by config.json. Raises
    ModelError if the manifest is damaged."""
    if manifest := read_manifest(folder):
        return ModelKind.of_architecture(manifest.architecture)
    path = folder.path
    if has_graph(path, ENCODER):
        return ModelKind.TRANSLATION
    config = read_json_or_empty(path / CONFIG)
    if names_cross_encoder(config):
        return ModelKind.CROSS_ENCODER
    if has_graph(path, causal_graph_name(path)) or (path / GENAI_CONFIG).is_file():
        return ModelKind.CAUSAL
    return ModelKind.CAUSAL if names_causal(config) else ModelKind.TRANSLATION
