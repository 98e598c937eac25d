"""The layout of the graphs in a folder, found without opening a session."""

from pathlib import Path

from worker.models.contents.present_files import causal_graph_name, graph_place, has_graph, kind_of
from worker.models.file_names import DECODER, ENCODER, MERGED, WITH_PAST
from worker.models.model_folder import ModelFolder, read_manifest
from worker.models.model_kind import ModelKind


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
        return None  # no export of one is run
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
    """With past or no cache, by the inputs of the graph; None if there is no graph that can be read."""
    from worker.models.layout.graph_signature import read_header  # loads numpy and onnx

    name = causal_graph_name(path)
    header = read_header(graph_place(path, name) / name)
    if header is None:
        return None
    return "with past" if any(tensor.name.startswith("past_") for tensor in header.inputs) else "no cache"
