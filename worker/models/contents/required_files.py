"""
Whether the files that a model needs are all in its folder.

Knows: which files the models of each kind and layout need. Does not know: what is inside a graph. Needs only the
standard library.

    translation   encoder_model.onnx + decoders, source.spm, target.spm, vocab.json     native: encoder, decoder
    causal        model.onnx, tokenizer.json; or model.gguf                             native: body, head
    cross-encoder no export, tokenizer.json                                             native: cross_encoder
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from jobs.errors import ModelError
from worker.graphs.architectures import (
    BART,
    M2M100,
    MARIAN,
    MBART,
    MT5,
    PEGASUS,
    SEQ2SEQ_ARCHITECTURES,
    T5,
    architecture_of,
)
from worker.graphs.file_names import stage_files
from worker.models.contents.present_files import (
    causal_graph_name,
    graph_place,
    has_exported_graphs,
    has_graph,
    has_weights,
    kind_of,
)
from worker.models.export_advice import ADD, CONVERT, EXPORT, EXPORT_CAUSAL
from worker.models.file_names import (
    BART_TOKENIZER,
    CAUSAL_GRAPH,
    CAUSAL_TOKENIZER,
    CONFIG,
    DECODER,
    ENCODER,
    GENAI_CONFIG,
    GGUF_MODEL,
    M2M100_TOKENIZER,
    M2M100_TOKENIZER_EXTRAS,
    MARIAN_TOKENIZER,
    MARIAN_TOKENIZER_EXTRAS,
    MBART_TOKENIZER,
    MERGED,
    NATIVE_GRAPHS,
    PEGASUS_TOKENIZER,
    SENTENCEPIECE,
    T5_TOKENIZER,
    WITH_PAST,
    graph_places,
)
from worker.models.json_file import read_json_or_empty
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder, deciding_files, files_in, read_manifest
from worker.models.model_kind import ModelKind
from worker.models.readable_file import refuse_link_out, refuse_placeholder
from worker.models.registry import is_bundled
from worker.models.unsupported import refuse_files
from worker.text.file_names import SENTENCEPIECE_BPE

# Sources of the bundled models. Their manifests, which are part of their revisions, have the first, of kvjobs 0.1.
_TRAINED_BY = ("python -m worker.demo", "python -m tools.demo")
_VOCABULARIES = {"vocab.txt", "vocab.json", SENTENCEPIECE_BPE}  # of BERT, RoBERTa and XLM-R
_A_MODEL = (
    f"A translation model is a folder that `{ADD} SOURCE` made, or config.json, {ENCODER}, {MERGED} (or {DECODER}, "
    f"with or without {WITH_PAST}), source.spm, target.spm and vocab.json, as `{EXPORT}` writes them"
)
_A_CAUSAL_MODEL = (
    f"A causal language model is a folder that `{ADD} SOURCE` made, or config.json, {CAUSAL_GRAPH} and "
    f"tokenizer.json, as `{EXPORT_CAUSAL}` writes them"
)
# All files of a tokenizer, by family.
TRANSLATION_TOKENIZERS = {
    MARIAN: (*MARIAN_TOKENIZER, *MARIAN_TOKENIZER_EXTRAS),
    M2M100: (*M2M100_TOKENIZER, *M2M100_TOKENIZER_EXTRAS),
    MBART: (*MBART_TOKENIZER, *M2M100_TOKENIZER_EXTRAS),
    BART: (*BART_TOKENIZER, *M2M100_TOKENIZER_EXTRAS),
    PEGASUS: (*PEGASUS_TOKENIZER, *M2M100_TOKENIZER_EXTRAS),
    T5: (*T5_TOKENIZER, *M2M100_TOKENIZER_EXTRAS),
    MT5: (*T5_TOKENIZER, *M2M100_TOKENIZER_EXTRAS),
}


def check_files(folder: ModelFolder) -> None:
    """Raise ModelError that names the first file which a model of its kind needs and this folder lacks."""
    manifest, path, kind = read_manifest(folder), folder.path, kind_of(folder)
    if manifest is not None and manifest.layout == "kv":
        tokenizer = (
            required_tokenizer(manifest.architecture, _names(path))
            if kind is ModelKind.TRANSLATION
            else CAUSAL_TOKENIZER
        )
        graphs = (
            NATIVE_GRAPHS[kind]
            if manifest.split is None
            else stage_files(len(manifest.split.stages), has_head=kind is ModelKind.CAUSAL)
        )
        for name in (CONFIG, *graphs, *tokenizer):
            _require(path / name, _remedy(path, manifest))
    elif manifest is not None and manifest.is_gguf:
        for name in (CONFIG, GGUF_MODEL):
            _require(path / name, _remedy(path, manifest))
    elif kind is ModelKind.CAUSAL:
        _check_causal_export(path)
    elif kind is ModelKind.CROSS_ENCODER:
        _refuse_cross_encoder_export(path)
    else:
        _check_export(path)
    for file in deciding_files(path):
        refuse_link_out(file, path)
        refuse_placeholder(file)


def check_causal_tokenizer(path: Path) -> None:
    """Raise ModelError where a folder lacks what the tokenizer of a causal model or of a cross-encoder is read from,
    and say where to get it."""
    for name in CAUSAL_TOKENIZER:
        _require(path / name, lacks_tokenizer({file.name for file in files_in(path)}))


def lacks_tokenizer(names: Collection[str]) -> str:
    """What is missing where a causal model has no tokenizer.json, from the names of the files beside it."""
    if SENTENCEPIECE in names:
        return f"{SENTENCEPIECE} alone cannot be read; make a tokenizer.json of it with `{CONVERT}`"
    if _VOCABULARIES & set(names):
        return f"the tokenizer as one file; make it with `{CONVERT}`"
    return f"the tokenizer. {_A_CAUSAL_MODEL}"


def refuse_unknown_graphs(path: Path) -> None:
    """Raise ModelError for a folder that has no weights, and graphs with none of the known names."""
    if has_exported_graphs(path) or has_weights(path):
        return
    graphs = sorted(
        file.relative_to(path).as_posix()
        for part in graph_places(path)
        for file in files_in(part)
        if file.suffix == ".onnx"
    )
    if graphs:
        raise ModelError(
            f"{path} has graphs by other names than are looked for ({', '.join(graphs)}): rename those that you want, "
            f"of a causal model to {CAUSAL_GRAPH}, of a translation model to {ENCODER} and {MERGED}"
        )


def _check_export(path: Path) -> None:
    graphs = graph_place(path, ENCODER)
    if not (graphs / ENCODER).is_file():
        _refuse_checkpoint(path)
    _require(path / CONFIG, f"the model's configuration. {_A_MODEL}")
    _require(graphs / ENCODER, f"the encoder. {_A_MODEL}")
    config = read_json_or_empty(path / CONFIG)
    named = _other_architecture(config)
    if named is not None:
        what, where = named
        raise ModelError(
            f"{path} is an export of {what} ({where} in its config.json), which kvjobs cannot translate with "
            f"yet: take a model of {', '.join(SEQ2SEQ_ARCHITECTURES.values())}"
        )
    if not (graphs / MERGED).is_file():
        _require(graphs / DECODER, f"the decoder (or {MERGED}, which does the work of both decoders). {_A_MODEL}")
    family = architecture_of(config) or MARIAN
    for name in required_tokenizer(family, _names(path)):
        _require(path / name, f"it belongs to the tokenizer of {family}, which the export copies. {_A_MODEL}")


def _names(path: Path) -> set[str]:
    return {file.name for file in files_in(path)}


def _other_architecture(config: Mapping[str, Any]) -> tuple[str, str] | None:
    """The architecture that a config.json names, and by which key; None for a known family, or where none is named."""
    if config.get("model_type") is not None:
        known = config["model_type"] in SEQ2SEQ_ARCHITECTURES.values()
        return None if known else (str(config["model_type"]), "model_type")
    if config.get("architectures") and architecture_of(config) not in SEQ2SEQ_ARCHITECTURES.values():
        named = config["architectures"]
        return (", ".join(map(str, named)) if isinstance(named, list) else str(named)), "architectures"
    return None


def _check_causal_export(path: Path) -> None:
    name = causal_graph_name(path)
    if not has_graph(path, name):
        _refuse_checkpoint(path)
    if not (path / GENAI_CONFIG).is_file():
        _require(path / CONFIG, f"the model's configuration. {_A_CAUSAL_MODEL}")
    _require(graph_place(path, name) / name, f"the graph. {_A_CAUSAL_MODEL}")
    check_causal_tokenizer(path)


def _refuse_cross_encoder_export(path: Path) -> None:
    _refuse_checkpoint(path)
    raise ModelError(
        f"{path} is a cross-encoder without its weights, of which kvjobs builds the graph itself: take its checkpoint, "
        f"that is, config.json, model.safetensors and tokenizer.json, and `{ADD}` that"
    )


def _refuse_checkpoint(path: Path) -> None:
    refuse_files({file.name for file in files_in(path)}, str(path))
    if has_weights(path):
        raise ModelError(
            f"{path} is a checkpoint, of which graphs have to be built first: run `{ADD} {path}`, and name the model "
            "that it makes"
        )


def _remedy(path: Path, manifest: Manifest) -> str:
    if manifest.split is not None:
        return f"`kvjobs models split {manifest.split.model}` wrote it: run that again with --force"
    if is_bundled(path):
        return "it comes with kvjobs: install that again"
    if (manifest.source or "").startswith(_TRAINED_BY):
        return "the folder is a copy of a model that comes with kvjobs: copy that again"
    return f"`{ADD} {manifest.source}` wrote it: run that again with --force"


def _require(file: Path, what: str) -> None:
    if not file.is_file():
        raise ModelError(f"{file} is missing: {what}")


def required_tokenizer(family: str, names: Collection[str]) -> tuple[str, ...]:
    """The tokenizer files that a model of this family needs; `names`: the files in its folder."""
    if family == MARIAN:
        return MARIAN_TOKENIZER
    fast, *others = TRANSLATION_TOKENIZERS[family][: -len(M2M100_TOKENIZER_EXTRAS)]
    if fast in names or not others:
        return (fast,)
    table, pieces = others[0], others[-1]
    return (table, pieces) if table in names and table != pieces else (pieces,)
