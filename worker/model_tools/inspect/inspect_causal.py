"""
Everything a person may want to know about the folder of a causal language model.

As for translation models, nothing here raises for what is wrong: it is said, beside all that could be read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jobs.errors import ModelError
from worker.engine.causal.open import open_language_model
from worker.graphs.causal import BODY, HEAD
from worker.graphs.causal_weights import CausalSizes
from worker.model_tools.add.causal_files import open_fitting_tokenizer
from worker.model_tools.inspect.description import ModelDescription, OpenedGraphs, file_sizes, noting
from worker.models.export_advice import ADD, EXPORT_CAUSAL
from worker.models.json_file import read_json
from worker.models.layout.causal_config import CausalConfig
from worker.models.layout.causal_layout import find_causal_graph, read_causal_layout
from worker.models.layout.seq2seq_layout import GraphSignature
from worker.models.model_kind import ModelKind
from worker.models.registry import ModelFolder, check_files, has_weights, read_manifest

WITH_PAST, NO_CACHE = "with past", "no cache"
_RUNS = {
    "kv": "reads many texts in one row without padding, and what several begin with once",
    WITH_PAST: "reads long texts in parts, and what several begin with once: it takes past_key_values.*",
    NO_CACHE: "reads each text from its beginning: no input past_key_values.* is there. For a cache, build graphs of "
    f"the checkpoint with `{ADD} CHECKPOINT`, or export it with `{EXPORT_CAUSAL}`",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """What graphs and configuration say of the network."""

    layout: str
    num_layers: int | None = None
    num_query_heads: int | None = None
    num_heads: int | None = None
    head_size: int | None = None
    cache_dtype: str | None = None
    width: int | None = None
    max_positions: int | None = None
    vocab_size: int | None = None


def inspect_causal(folder: ModelFolder) -> ModelDescription:
    """Open every graph of a folder, one after the other, and say what it is and whether it runs."""
    problems: list[str] = []
    with noting(problems):
        check_files(folder)
    manifest = read_manifest(folder)
    consequences = [] if problems else problems  # a file that is missing is said once
    is_ours = manifest is not None and manifest.layout == "kv"
    used: Mapping[str, Path] = {}
    with noting(consequences):
        used = {name: folder.path / name for name in (BODY, HEAD)} if is_ours else _exported(folder.path)
    opened = OpenedGraphs.of(folder.path)
    if manifest is not None:
        consequences += manifest.differences(folder.path)
    follows = consequences if is_ours else problems  # graphs of ours share one file of weights
    follows += opened.problems(used.values())
    sizes: _Sizes | None = None
    graphs = opened.readable(used)
    if used and len(graphs) == len(used):
        with noting(follows):
            sizes = _kv_sizes(folder.path, graphs) if is_ours else _export_sizes(folder.path, *graphs.values())
    bos_id = eos_id = revision = None
    if sizes and sizes.vocab_size is not None:
        with noting(consequences):
            tokenizer = open_fitting_tokenizer(folder.path, sizes.vocab_size)
            bos_id, eos_id = tokenizer.bos_id, tokenizer.eos_id
    with noting(problems):
        revision = folder.revision()
    max_positions = sizes.max_positions if sizes else None
    warnings: list[str] = []
    if sizes and not problems:
        with noting(problems):  # what only shows when all is put together
            model = open_language_model(folder.path)
            max_positions = model.max_positions
            warnings += model.departures.warnings()
    warnings += (one for one in (manifest.departures if manifest else ()) if one not in warnings)
    if not used and not is_ours and has_weights(folder.path):
        problems[:] = problems[:1]  # a checkpoint, and how it becomes a model: all else follows from it

    return ModelDescription(
        name=folder.name,
        path=str(folder.path),
        kind=ModelKind.CAUSAL,
        revision=revision,
        layout=sizes.layout if sizes else "kv" if is_ours else None,
        conclusion=_RUNS[sizes.layout] if sizes and not problems else None,
        precision=manifest.precision if manifest else None,
        source=manifest.source if manifest else None,
        source_revision=manifest.revision if manifest else None,
        architecture=manifest.architecture if manifest else None,
        num_layers=sizes.num_layers if sizes else None,
        num_query_heads=sizes.num_query_heads if sizes else None,
        num_heads=sizes.num_heads if sizes else None,
        head_size=sizes.head_size if sizes else None,
        cache_dtype=sizes.cache_dtype if sizes else None,
        width=sizes.width if sizes else None,
        max_positions=max_positions,
        vocab_size=sizes.vocab_size if sizes else None,
        warnings=tuple(warnings),
        bos_id=bos_id,
        eos_id=eos_id,
        graphs=opened.describe(used.values()),
        files=file_sizes(folder.path),
        problems=tuple(problems),
    )


def _exported(folder: Path) -> dict[str, Path]:
    graph = find_causal_graph(folder)
    return {graph.name: graph}


def _export_sizes(folder: Path, graph: GraphSignature) -> _Sizes:
    config = CausalConfig.read(folder)
    layout = read_causal_layout(graph, config)
    cache = layout.cache
    return _Sizes(
        layout=WITH_PAST if cache else NO_CACHE,
        num_layers=cache.num_layers if cache else None,
        num_query_heads=config.num_attention_heads,
        num_heads=cache.num_heads if cache else None,
        head_size=cache.head_size if cache else None,
        cache_dtype=str(cache.dtype) if cache else None,
        width=config.hidden_size,
        max_positions=config.max_position_embeddings,
        vocab_size=layout.vocab_size,
    )


def _kv_sizes(folder: Path, graphs: Mapping[str, GraphSignature]) -> _Sizes:
    """From config.json; the inputs of the body say what is kept."""
    sizes = CausalSizes.read(read_json(folder / "config.json"))
    past = graphs[BODY].inputs.get("past.0.key")
    if past is None:
        raise ModelError(f"{graphs[BODY].file} lacks the input past.0.key: add the model again")
    return _Sizes(
        layout="kv",
        num_layers=sizes.layers,
        num_query_heads=sizes.heads,
        num_heads=sizes.kv_heads,
        head_size=sizes.head_size,
        cache_dtype={"tensor(float)": "float32", "tensor(float16)": "float16"}.get(past.type, past.type),
        width=sizes.width,
        max_positions=sizes.max_positions,
        vocab_size=sizes.vocab_size,
    )
