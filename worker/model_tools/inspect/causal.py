"""The causal part of `inspect`: causal language models, as native graphs and as exports of other tools."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from worker.engine.causal.open import open_causal_model
from worker.graphs.causal.families import read_sizes
from worker.graphs.file_names import BODY, HEAD, stage_graphs
from worker.model_tools.inspect.protocol import Fields, Graphs, cache_fields, native_cache_dtype
from worker.model_tools.inspect.stages import describe_stages
from worker.models.export_advice import ADD, EXPORT_CAUSAL
from worker.models.json_file import read_json
from worker.models.layout.causal_config import CausalConfig
from worker.models.layout.causal_layout import find_causal_graph, read_causal_layout
from worker.models.manifest import Manifest
from worker.models.model_kind import ModelKind
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.chat_template import has_template

WITH_PAST, NO_CACHE = "with past", "no cache"


class InspectedCausal:
    """Causal language models."""

    kind = ModelKind.CAUSAL
    conclusions: ClassVar[Mapping[str, str]] = {
        "kv": "native graphs, built by kvjobs, with a KV cache; short texts are packed into one call without padding, "
        "and a beginning that texts share is computed once",
        WITH_PAST: "an export with a KV cache (inputs past_key_values.*); long texts are read in parts, and a "
        "beginning that texts share is computed once",
        NO_CACHE: "an export without a KV cache (no input past_key_values.*); each text is read whole. For a cache, "
        f"build graphs from the checkpoint with `{ADD} CHECKPOINT`, or export it with `{EXPORT_CAUSAL}`",
    }

    def find_graphs(self, folder: Path, native: Manifest | None) -> dict[str, Path]:
        if native is not None:
            names = (BODY, HEAD) if native.split is None else stage_graphs(len(native.split.stages), has_head=True)
            return {name: folder / name for name in names}
        graph = find_causal_graph(folder)
        return {graph.name: graph}

    def read_config(self, folder: Path, manifest: Manifest | None) -> Fields:
        """Only the manifest, and stages: other sizes are reported where graph and configuration agree on them."""
        if manifest is None:
            return {"architecture": None}
        return {
            "architecture": manifest.architecture,
            "split_of": manifest.split.model if manifest.split else None,
            "stages": describe_stages(folder, manifest),
        }

    def read_graphs(self, folder: Path, graphs: Graphs, *, is_native: bool) -> Fields:
        if is_native:
            sizes = read_sizes(read_json(folder / "config.json"))
            return {
                "layout": "kv",
                "num_layers": sizes.layers,
                "num_query_heads": sizes.heads,
                "num_heads": sizes.kv_heads,
                "head_size": sizes.head_size,
                "cache_dtype": native_cache_dtype(next(iter(graphs.values()))),
                "width": sizes.width,
                "max_positions": sizes.max_positions,
                "vocab_size": sizes.vocab_size,
            }
        (graph,) = graphs.values()
        config = CausalConfig.read(folder)
        layout = read_causal_layout(graph, config)
        return {
            "layout": WITH_PAST if layout.cache else NO_CACHE,
            "num_query_heads": config.num_attention_heads,
            "width": config.hidden_size,
            "max_positions": config.max_position_embeddings,
            "vocab_size": layout.vocab_size,
            **cache_fields(layout.cache),
        }

    def read_tokenizer(self, folder: Path, sizes: Fields) -> Fields:
        """BOS and EOS; no fields if the size of the vocabulary, which the tokenizer has to fit, is unknown."""
        if sizes.get("vocab_size") is None:
            return {}
        tokenizer = CausalTokenizer.open(folder, sizes["vocab_size"])
        return {
            "bos_id": tokenizer.bos_id,
            "eos_id": tokenizer.eos_id,
            "has_chat_template": has_template(folder),
        }

    def open_model(self, folder: Path) -> Fields:
        """`warnings` are the departures of the graph from its configuration, found when the model is opened."""
        model = open_causal_model(folder)
        return {"max_positions": model.max_positions, "warnings": tuple(model.departures.warnings())}
