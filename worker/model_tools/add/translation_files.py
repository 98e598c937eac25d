"""The files of a translation model: built from a checkpoint, or copied from an export."""

import random
from pathlib import Path

from jobs.errors import SpecError
from worker.graphs.architectures import BART, MARIAN, architecture_of
from worker.graphs.precision import Precision
from worker.model_tools.add.built_tokenizer import copy_with_tokenizer
from worker.model_tools.add.target_ids import HeadChoice, target_ids
from worker.model_tools.origin import Origin
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.contents.required_files import TRANSLATION_TOKENIZERS
from worker.models.file_names import CONFIG, CONFIGURATION
from worker.models.json_file import read_json, read_json_or_empty
from worker.models.layout.seq2seq_layout import find_graphs
from worker.models.manifest import Manifest
from worker.text.file_names import VOCABULARY_FILES, vocabulary_in
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer, open_translation_tokenizer

_DEFAULT_HEAD = {
    Precision.FP32: HeadChoice.FULL,  # gives exactly the ids of the checkpoint
    Precision.FP16: HeadChoice.FULL,
    Precision.INT8: HeadChoice.TARGET,  # an approximation already
}
_LENGTHS = (2, 3, 5, 8, 12, 16, 24, 32)  # pieces of a sentence
_SENTENCES = 4  # of each length


def build_translation(
    folder: Path, origin: Origin, checkpoint: Checkpoint, precision: Precision, head: HeadChoice | None
) -> Manifest:
    """Write native graphs and copy the other files; build the tokenizer.json of BART where its older files are there
    instead. `head`: None for the default of the precision."""
    from worker.graphs.seq2seq.families import read_network
    from worker.graphs.seq2seq.graphs import quantize_kv, write_seq2seq  # loads onnx, which a copy does not need

    names = _other_files(checkpoint.architecture)
    if checkpoint.architecture == BART and vocabulary_in(origin.present(VOCABULARY_FILES)):
        read = copy_with_tokenizer(origin, names, folder)
    else:
        read = origin.present(names)
        origin.copy(read, folder)
    tokenizer = open_translation_tokenizer(folder)  # before the work of building graphs
    head = _head(origin, checkpoint, precision, head)
    head_ids = target_ids(origin.folder) if head is HeadChoice.TARGET else None
    write_seq2seq(folder, checkpoint.config, checkpoint.weights, precision=precision, head_ids=head_ids)
    if precision is Precision.INT8:
        # These load onnxruntime.
        from worker.engine.runtime.native_session import attends_to_int8
        from worker.engine.seq2seq.native.kv_calibration import measure_scales

        if attends_to_int8():
            sources = made_up_sentences(tokenizer, read_network(checkpoint.config).max_positions)
            scales = measure_scales(folder, checkpoint.config, checkpoint.weights, head_ids, sources)
            quantize_kv(folder, checkpoint.config, precision, scales)
    return origin.manifest(
        folder,
        layout="kv",
        architecture=checkpoint.architecture,
        read=(*checkpoint.files, *read),
        precision=precision,
        head=head,
        head_ids=head_ids,
    )


def copy_translation_export(folder: Path, origin: Origin) -> Manifest:
    """Copy the graphs of the best exported layout, their external weights and the other files."""
    graphs = find_graphs(origin.folder)
    architecture = architecture_of(read_json_or_empty(origin.folder / CONFIG)) or MARIAN
    named = [*origin.with_weights_of(graphs.values()), *origin.present(_other_files(architecture))]
    origin.copy(named, folder)
    return origin.manifest(folder, layout="optimum", architecture=architecture, read=named)


def try_translation(folder: Path) -> None:
    """Open the model as a worker does; raise ModelError where that fails."""
    from worker.engine.seq2seq.open import open_seq2seq_model  # loads onnxruntime

    open_translation_tokenizer(folder)
    open_seq2seq_model(folder)


def target_languages(folder: Path) -> tuple[tuple[str, ...], bool]:
    """The target languages that a job may name, sorted, and whether it has to name one."""
    tokenizer = open_translation_tokenizer(folder)
    try:
        tokenizer.check_language(None)
    except SpecError:
        return tuple(sorted(tokenizer.languages)), True
    return tuple(sorted(tokenizer.languages)), False


def _other_files(family: str) -> tuple[str, ...]:
    """The files of a model besides its graphs and weights."""
    return *CONFIGURATION, *TRANSLATION_TOKENIZERS[family]


def _head(origin: Origin, checkpoint: Checkpoint, precision: Precision, wanted: HeadChoice | None) -> HeadChoice:
    """Raises SpecError for a choice that the family does not have."""
    if checkpoint.architecture == MARIAN:
        return wanted or _DEFAULT_HEAD[precision]
    if wanted is HeadChoice.TARGET:
        raise SpecError(
            f"--head target keeps the pieces of target.spm, and {origin.source} has one vocabulary for all languages: "
            "leave it out"
        )
    return HeadChoice.FULL


def head_size(folder: Path, manifest: Manifest) -> int | None:
    """Number of target ids of the head; None: as many as the export has."""
    if manifest.head is None:
        return None
    config = read_json(folder / "config.json")
    full: int = config.get("decoder_vocab_size") or config["vocab_size"]
    return full if manifest.head_ids is None else len(manifest.head_ids)


def made_up_sentences(tokenizer: Seq2SeqTokenizer, max_positions: int) -> list[list[int]]:
    """Sentences of ids, longest first, on which `measure_scales` measures a model. They are made of its own vocabulary,
    so a model of any language can be added without a corpus."""
    rng = random.Random(0)
    lengths = [max(0, min(length, max_positions - 2)) for length in sorted(_LENGTHS, reverse=True)]
    return [tokenizer.draw(rng, length) for length in lengths for _ in range(_SENTENCES)]
