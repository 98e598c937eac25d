"""The part of `inspect` for cross-encoders, which have native graphs alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from worker.engine.cross_encoder.model import CrossEncoder
from worker.engine.cross_encoder.pair_reader import open_pair_reader
from worker.graphs.cross_encoder.families import read_network
from worker.graphs.file_names import CROSS_ENCODER
from worker.model_tools.inspect.protocol import Fields, Graphs
from worker.models.file_names import CONFIG
from worker.models.json_file import read_json
from worker.models.manifest import Manifest
from worker.models.model_kind import ModelKind
from worker.models.relevance_settings import Activation, RelevanceSettings

_SCORES = {
    Activation.SIGMOID: "a score is from 0 to 1 (sigmoid)",
    Activation.IDENTITY: "a score is the logit itself (identity)",
}


class InspectedCrossEncoder:
    """Cross-encoders."""

    kind = ModelKind.CROSS_ENCODER
    conclusions: ClassVar[Mapping[str, str]] = {
        "kv": "a native graph, built by kvjobs; the pairs of many queries are packed into one call without padding",
    }

    def find_graphs(self, folder: Path, native: Manifest | None) -> dict[str, Path]:
        return {} if native is None else {CROSS_ENCODER: folder / CROSS_ENCODER}

    def read_config(self, folder: Path, manifest: Manifest | None) -> Fields:
        return {"architecture": manifest.architecture if manifest else None}

    def read_graphs(self, folder: Path, graphs: Graphs, *, is_native: bool) -> Fields:
        network = read_network(read_json(folder / CONFIG))
        return {
            "layout": "kv",
            "num_query_heads": network.heads,
            "width": network.width,
            "max_positions": network.max_positions,
            "vocab_size": network.vocab_size,
        }

    def read_tokenizer(self, folder: Path, sizes: Fields) -> Fields:
        """How a score is made of a logit; the tokenizer itself is read with the model."""
        return {"relevance": _SCORES[RelevanceSettings.read(folder).activation]}

    def open_model(self, folder: Path) -> Fields:
        reader = open_pair_reader(folder, CrossEncoder.open(folder))
        return {"pair_length": reader.max_length}
