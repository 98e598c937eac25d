"""The seq2seq part of `inspect`: translation models, native and as Optimum exports them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from worker.engine.seq2seq.open import open_seq2seq_model
from worker.graphs.file_names import DECODER, ENCODER, stage_graph, stage_graphs
from worker.graphs.seq2seq.families import read_network
from worker.model_tools.inspect.protocol import Fields, Graphs, cache_fields, native_cache_dtype
from worker.model_tools.inspect.stages import describe_stages
from worker.models.export_advice import ADD, EXPORT
from worker.models.json_file import read_json, read_json_or_empty
from worker.models.layout.seq2seq_config import Seq2SeqConfig
from worker.models.layout.seq2seq_layout import LayoutKind, find_graphs, read_layout
from worker.models.manifest import Manifest
from worker.models.model_kind import ModelKind
from worker.text.translation.translation_tokenizer import open_translation_tokenizer


class InspectedSeq2Seq:
    """Translation models."""

    kind = ModelKind.TRANSLATION
    conclusions: ClassVar[Mapping[str, str]] = {
        "kv": "native graphs, built by kvjobs, with a KV cache; when a sentence ends, the next one takes its place in "
        "the batch",
        LayoutKind.MERGED: "an export with a KV cache; decoder_model_merged.onnx computes the first step and the "
        "later ones (its input use_cache_branch chooses)",
        LayoutKind.TWO_DECODERS: "an export with a KV cache; decoder_model.onnx computes the first "
        "step, decoder_with_past_model.onnx the later ones",
        LayoutKind.NO_CACHE: "an export without a KV cache (no input past_key_values.*): each step computes all "
        f"earlier tokens again. For a cache, build graphs from the checkpoint with `{ADD} CHECKPOINT`, or export it "
        f"with `{EXPORT}`",
    }

    def find_graphs(self, folder: Path, native: Manifest | None) -> dict[str, Path]:
        if native is None:
            return find_graphs(folder)
        whole = (ENCODER, DECODER)
        stages = whole if native.split is None else stage_graphs(len(native.split.stages), has_head=False)
        names = {*stages} | {name for name in native.files if name.endswith(".onnx")}
        return {name: folder / name for name in names}

    def read_config(self, folder: Path, manifest: Manifest | None) -> Fields:
        config = read_json(folder / "config.json")
        fields = {
            "max_positions": Seq2SeqConfig.of(config).max_positions,
            "source_vocab_size": config.get("vocab_size"),
        }
        if manifest is not None and manifest.split is not None:
            fields |= {"split_of": manifest.split.model, "stages": describe_stages(folder, manifest)}
        if manifest is None or manifest.head_ids is None:
            fields["num_target_ids"] = _target_vocab_size(config)
        return fields

    def read_graphs(self, folder: Path, graphs: Graphs, *, is_native: bool) -> Fields:
        config = read_json_or_empty(folder / "config.json")  # graphs of an export may say enough without it
        if not is_native:
            layout = read_layout(graphs, config)
            return {
                "layout": layout.kind,
                "width": layout.width,
                "target_vocab_size": layout.vocab_size,
                **cache_fields(layout.cache),
            }
        network = read_network(config)
        decoder = graphs.get(DECODER) or graphs[stage_graph(1)]  # the first with keys and values
        return {
            "layout": "kv",
            "num_layers": network.decoder_layers,
            "num_heads": network.decoder_heads.number,
            "head_size": network.decoder_heads.size,
            "cache_dtype": native_cache_dtype(decoder),
            "width": network.width,
            "target_vocab_size": _target_vocab_size(config),
        }

    def read_tokenizer(self, folder: Path, sizes: Fields) -> Fields:
        return {"languages": tuple(sorted(open_translation_tokenizer(folder).languages))}

    def open_model(self, folder: Path) -> Fields:
        """Refused search settings, and a merged graph that rejects a past, only show when the model is opened."""
        model = open_seq2seq_model(folder)
        return {"max_positions": model.max_positions, "unlisted_pad_id": model.generation.unlisted_pad_id}


def _target_vocab_size(config: Fields) -> Any:
    return config.get("decoder_vocab_size") or config.get("vocab_size")
