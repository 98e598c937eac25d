"""Which kind of model a folder holds. Needs only the standard library."""

from worker.models.contents.present_files import causal_graph_name, has_graph
from worker.models.file_names import CONFIG, ENCODER, GENAI_CONFIG
from worker.models.json_file import read_json_or_empty
from worker.models.model_folder import ModelFolder, read_manifest
from worker.models.model_kind import ModelKind, names_causal, names_cross_encoder


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
