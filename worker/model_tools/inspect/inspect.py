"""Everything a person may want to know about a model folder: what `kvjobs models inspect` shows.

Knows: graphs, configuration, vocabulary, files. Does not know: how to print.
Nothing here raises for what is wrong with a model: it is said, beside all that could be read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.errors import ModelError
from worker.engine.seq2seq.open import open_translation_model
from worker.graphs.marian import DECODER as KV_DECODER
from worker.graphs.marian import ENCODER as KV_ENCODER
from worker.graphs.marian_weights import MarianSizes
from worker.model_tools.inspect.description import ModelDescription, OpenedGraphs, file_sizes, noting
from worker.model_tools.inspect.inspect_causal import inspect_causal
from worker.models.export_advice import ADD, EXPORT
from worker.models.json_file import read_json
from worker.models.layout.seq2seq_layout import GraphSignature, Layout, find_graphs, read_layout
from worker.models.layout.seq2seq_layout import LayoutKind as Form
from worker.models.manifest import Manifest
from worker.models.model_kind import ModelKind
from worker.models.registry import ModelFolder, check_files, has_weights, kind_of, read_manifest
from worker.text.marian_tokenizer import MarianTokenizer

_RUNS = {
    "kv": "runs with a cache that rows share and leave one by one: a slot is filled again as soon as its sentence ends",
    Form.MERGED: "runs with a cache: one decoder for the first step and the later ones (input use_cache_branch)",
    Form.TWO_DECODERS: "runs with a cache: decoder_model.onnx makes the first step, decoder_with_past_model.onnx the "
    "later ones",
    Form.NO_CACHE: "runs without a cache, each step over the whole beginning again: no input past_key_values.* is "
    f"there. For a cache, build graphs of the checkpoint with `{ADD} CHECKPOINT`, or export it with `{EXPORT}`",
}


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
    try:
        kind = kind_of(folder)
    except ModelError:  # a damaged manifest, of which more is said below
        kind = ModelKind.TRANSLATION
    return inspect_causal(folder) if kind is ModelKind.CAUSAL else _inspect_translation(folder)


def _inspect_translation(folder: ModelFolder) -> ModelDescription:
    problems: list[str] = []
    manifest: Manifest | None = None
    with noting(problems):
        manifest = read_manifest(folder)
        check_files(folder)
    consequences = [] if problems else problems  # a file that is missing is said once
    is_ours = manifest is not None and manifest.layout == "kv"
    used: Mapping[str, Path] = {}
    with noting(consequences):
        used = _our_graphs(folder.path, manifest) if manifest and is_ours else find_graphs(folder.path)
    opened = OpenedGraphs.of(folder.path)
    if manifest is not None:
        consequences += manifest.differences(folder.path)
    follows = consequences if is_ours else problems  # graphs of ours share one file of weights
    follows += opened.problems(used.values())

    config: Mapping[str, Any] = {}
    with noting(consequences):
        config = read_json(folder.path / "config.json")
    sizes: _Sizes | None = None
    graphs = opened.readable(used)
    if used and len(graphs) == len(used):
        with noting(follows):
            sizes = _kv_sizes(graphs, config) if is_ours else _export_sizes(read_layout(graphs, config))
    languages: frozenset[str] = frozenset()
    with noting(consequences):
        languages = MarianTokenizer.open(folder.path).languages
    revision, max_positions = None, config.get("max_position_embeddings")
    with noting(problems):
        revision = folder.revision()
    unlisted_pad_id: int | None = None
    if sizes and not problems:
        with noting(problems):  # what only shows at the first step: settings of the search, a past that is refused
            model = open_translation_model(folder.path)
            max_positions, unlisted_pad_id = model.max_positions, model.generation.unlisted_pad_id
    if not used and not is_ours and has_weights(folder.path):
        problems[:] = problems[:1]  # a checkpoint, and how it becomes a model: all else follows from it

    full = config.get("decoder_vocab_size") or config.get("vocab_size")
    head_ids = manifest.head_ids if manifest else None
    return ModelDescription(
        name=folder.name,
        path=str(folder.path),
        kind=ModelKind.TRANSLATION,
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
        unlisted_pad_id=unlisted_pad_id,
        graphs=opened.describe(used.values()),
        files=file_sizes(folder.path),
        problems=tuple(problems),
    )


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


def _kv_sizes(graphs: Mapping[str, GraphSignature], config: Mapping[str, Any]) -> _Sizes:
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
