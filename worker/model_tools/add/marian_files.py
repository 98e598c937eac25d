"""The files of a translation model: built from a checkpoint, or copied from an export."""

from pathlib import Path

from worker.graphs.architectures import MARIAN
from worker.graphs.precision import Precision
from worker.model_tools.add.target_ids import HeadChoice, target_ids
from worker.model_tools.origin import Origin
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.file_names import CONFIGURATION, MARIAN_TOKENIZER, MARIAN_TOKENIZER_EXTRAS
from worker.models.json_file import read_json
from worker.models.layout.seq2seq_layout import find_graphs
from worker.models.manifest import Manifest
from worker.text.marian_tokenizer import MarianTokenizer

# What belongs to a model besides graphs and weights.
_BESIDE = (*CONFIGURATION, *MARIAN_TOKENIZER, *MARIAN_TOKENIZER_EXTRAS)
_DEFAULT_HEAD = {
    Precision.FP32: HeadChoice.FULL,  # promises the very ids of the checkpoint
    Precision.FP16: HeadChoice.FULL,
    Precision.INT8: HeadChoice.TARGET,  # an approximation already
}


def build_marian(
    folder: Path, origin: Origin, checkpoint: Checkpoint, precision: Precision, head: HeadChoice | None
) -> Manifest:
    """Write graphs of our own, and what belongs beside them. `head`: None, what suits the precision."""
    from worker.graphs.marian import write_marian  # loads onnx, which a copy has no use for

    MarianTokenizer.open(origin.folder)  # what is wrong with it is better said before the work than after
    head = head or _DEFAULT_HEAD[precision]
    head_ids = target_ids(origin.folder) if head is HeadChoice.TARGET else None
    write_marian(folder, checkpoint.config, checkpoint.weights, precision=precision, head_ids=head_ids)
    copied = origin.present(_BESIDE)
    origin.copy(copied, folder)
    return origin.manifest(
        folder,
        layout="kv",
        architecture=checkpoint.architecture,
        read=(*checkpoint.files, *copied),
        precision=precision,
        head=head,
        head_ids=head_ids,
    )


def copy_marian_export(folder: Path, origin: Origin) -> Manifest:
    """Copy graphs that Optimum exported: those that its best layout uses, with their external weights."""
    graphs = find_graphs(origin.folder)
    named = [*origin.with_weights_of(graphs.values()), *origin.present(_BESIDE)]
    origin.copy(named, folder)
    return origin.manifest(folder, layout="optimum", architecture=MARIAN, read=named)


def try_marian(folder: Path) -> None:
    """Open it as a worker would; raise ModelError where that fails."""
    from worker.engine.seq2seq.open import open_translation_model  # loads onnxruntime

    MarianTokenizer.open(folder)
    open_translation_model(folder)


def head_size(folder: Path, manifest: Manifest) -> int | None:
    """How many target ids can come out; None: as the export has it."""
    if manifest.head is None:
        return None
    config = read_json(folder / "config.json")
    full: int = config.get("decoder_vocab_size") or config["vocab_size"]
    return full if manifest.head_ids is None else len(manifest.head_ids)
