"""Which graphs and weights lie in a folder, which kind of model they make, and in which layout, found without opening a
session. Needs only the standard library."""

from pathlib import Path

from worker.models.file_names import (
    CAUSAL_GRAPH,
    CHECKPOINT,
    CONFIG,
    DECODER,
    ENCODER,
    GENAI_CONFIG,
    MERGED,
    WITH_PAST,
    graph_places,
)
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


def layout_of(folder: ModelFolder) -> str | None:
    """kv, gguf, merged, two decoders, with past or no cache; None if its files do not form a known layout.

    File names decide, except for a causal export: there the inputs of the graph do, and reading them loads numpy and
    onnx.
    """
    if kind_of(folder) is ModelKind.CAUSAL and _known_layout(folder) is None:
        return _causal_layout(folder.path)
    return layout_by_names(folder)


def layout_by_names(folder: ModelFolder) -> str | None:
    """As `layout_of`, by the names of the files alone: `export` for every causal export. Loads nothing."""
    if known := _known_layout(folder):
        return known
    if kind_of(folder) is ModelKind.CAUSAL:
        return "export" if has_graph(folder.path, causal_graph_name(folder.path)) else None
    if kind_of(folder) is ModelKind.CROSS_ENCODER:
        return None  # exports of cross-encoders are not run
    graphs = graph_place(folder.path, ENCODER)
    if not (graphs / ENCODER).is_file():
        return None
    if (graphs / MERGED).is_file():
        return "merged"
    if not (graphs / DECODER).is_file():
        return None
    return "two decoders" if (graphs / WITH_PAST).is_file() else "no cache"


def _known_layout(folder: ModelFolder) -> str | None:
    """The layout that the manifest names; None for graphs of an export."""
    manifest = read_manifest(folder)
    return manifest.layout if manifest is not None and (manifest.is_native or manifest.is_gguf) else None


def _causal_layout(path: Path) -> str | None:
    """`with past` or `no cache`, by the inputs of the graph; None if there is no graph that can be read."""
    from worker.models.layout.graph_signature import read_header  # loads numpy and onnx

    name = causal_graph_name(path)
    header = read_header(graph_place(path, name) / name)
    if header is None:
        return None
    return "with past" if any(tensor.name.startswith("past_") for tensor in header.inputs) else "no cache"
