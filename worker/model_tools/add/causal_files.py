"""The files of a causal language model: built from a checkpoint, or copied from an export."""

import shutil
from dataclasses import replace
from pathlib import Path

from jobs.errors import ModelError
from worker.graphs.architectures import MARIAN
from worker.graphs.precision import Precision
from worker.model_tools.add.built_tokenizer import copy_with_tokenizer
from worker.model_tools.origin import Origin
from worker.model_tools.verify.checks import Verdict
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.contents.required_files import check_causal_tokenizer
from worker.models.file_names import CAUSAL_TOKENIZER, CAUSAL_TOKENIZER_EXTRAS, CONFIG, CONFIGURATION, GENAI_CONFIG
from worker.models.json_file import read_json
from worker.models.layout.causal_layout import find_causal_graph
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder
from worker.models.model_kind import UNNAMED
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.tokenizer_trial import try_tokenizer

_SAMPLE = 4  # texts

# Files of a model besides graphs and weights.
_OTHER_FILES = (*CONFIGURATION, GENAI_CONFIG, *CAUSAL_TOKENIZER, *CAUSAL_TOKENIZER_EXTRAS)


def build_causal(folder: Path, origin: Origin, checkpoint: Checkpoint, precision: Precision) -> Manifest:
    """Write native graphs and copy the other files; build tokenizer.json where there is none."""
    read = copy_with_tokenizer(origin, _OTHER_FILES, folder)
    _check_tokenizer(folder)  # before the work of building graphs
    write_graphs(folder, checkpoint, precision)
    return origin.manifest(
        folder,
        layout="kv",
        architecture=checkpoint.architecture,
        read=(*checkpoint.files, *read),
        precision=precision,
    )


def write_graphs(folder: Path, checkpoint: Checkpoint, precision: Precision) -> None:
    """Write native graphs. The tokenizer is in `folder`: weights in int8 are rounded by what a few paragraphs need."""
    # These load onnx, which a copy does not need.
    from worker.graphs.causal.graphs import write_causal
    from worker.model_tools.add.input_moments import sample_rounding

    config, weights = checkpoint.config, checkpoint.weights
    scales, factors = sample_rounding(folder, config, weights) if precision is Precision.INT8 else (None, None)
    write_causal(folder, config, weights, precision=precision, scales=scales, factors=factors)


def copy_causal_export(
    folder: Path, origin: Origin, *, accepts_departures: bool = False, checkpoint: Path | None = None
) -> Manifest:
    """Copy an exported graph, its external weights and the other files.

    `accepts_departures`: even where the graph contradicts its configuration. `checkpoint`: that the export was made
    from; its config.json is copied where the export has none.
    """
    check_causal_tokenizer(origin.folder)
    _check_tokenizer(origin.folder)
    graph = find_causal_graph(origin.folder)
    named = [*origin.with_weights_of([graph]), *origin.present(_OTHER_FILES)]
    origin.copy(named, folder)
    if checkpoint and CONFIG not in named:
        shutil.copyfile(checkpoint / CONFIG, folder / CONFIG)
    manifest = origin.manifest(folder, layout="optimum", architecture=_model_type(folder), read=named)
    return replace(manifest, accepts_departures=accepts_departures, checkpoint=str(checkpoint) if checkpoint else None)


def try_causal(folder: Path) -> None:
    """Open the model as a worker does; raise ModelError where that fails, or the tokenizer is another model's."""
    from worker.engine.causal.open import open_causal_model, open_causal_tokenizer  # loads onnxruntime

    open_causal_tokenizer(folder, open_causal_model(folder))


def compare_sample(model: ModelFolder, checkpoint: Path, *, is_accepted: bool) -> list[str]:
    """Compare an export with its checkpoint on a few texts; a warning for its manifest where they differ.

    Raises ModelError where log-probabilities differ by more than float32 sums do, unless `is_accepted`.
    """
    from worker.model_tools.sample import read_documents  # loads onnxruntime
    from worker.model_tools.verify.causal import check_sample

    documents = read_documents(None, CausalTokenizer.open(model.path), limit=_SAMPLE)
    check = check_sample(model, documents, checkpoint)
    if check.verdict is Verdict.LEFT_OUT:
        return [f"was not compared with its checkpoint: {check.note}"]
    gap = f"{check.drift:.2g} nats a token on the mean, and {check.worst:.2g} of a single one"
    if check.has_failed and not is_accepted:
        raise ModelError(
            f"{model.path} gives other log-probabilities than its checkpoint {checkpoint} ({check.against}: {gap} on a "
            "sample): export it with another exporter, or add it as it is with --accept-departures"
        )
    return [] if check.verdict is Verdict.SAME else [f"differs from its checkpoint by {gap}"]


def _check_tokenizer(folder: Path) -> None:
    CausalTokenizer.open(folder)
    try_tokenizer(folder)


def _model_type(folder: Path) -> str:
    """The architecture of an export for its manifest, by its configuration."""
    if (folder / CONFIG).is_file():
        named = read_json(folder / CONFIG).get("model_type")
    else:
        model = read_json(folder / GENAI_CONFIG).get("model")
        named = model.get("type") if isinstance(model, dict) else None
    return named if isinstance(named, str) and named != MARIAN else UNNAMED
