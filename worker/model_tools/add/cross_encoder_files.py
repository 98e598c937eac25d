"""The files of a cross-encoder, built from a checkpoint."""

from pathlib import Path

from worker.graphs.precision import Precision
from worker.model_tools.add.built_tokenizer import copy_with_tokenizer
from worker.model_tools.origin import Origin
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.file_names import CAUSAL_TOKENIZER, CAUSAL_TOKENIZER_EXTRAS, CONFIG, SENTENCE_TRANSFORMERS
from worker.models.manifest import Manifest
from worker.models.relevance_settings import RelevanceSettings
from worker.text.text_pair_tokenizer import TextPairTokenizer
from worker.text.tokenizer_trial import try_tokenizer

# Files of a model besides its graph and weights.
_OTHER_FILES = (CONFIG, *CAUSAL_TOKENIZER, *CAUSAL_TOKENIZER_EXTRAS, *SENTENCE_TRANSFORMERS)


def build_cross_encoder(folder: Path, origin: Origin, checkpoint: Checkpoint, precision: Precision) -> Manifest:
    """Write the native graph and copy the other files; build tokenizer.json where there is none."""
    from worker.graphs.cross_encoder.graph import write_cross_encoder  # loads onnx, which a copy does not need

    read = copy_with_tokenizer(origin, _OTHER_FILES, folder)
    TextPairTokenizer.open(folder)  # before the work of building the graph
    try_tokenizer(folder)
    RelevanceSettings.read(folder)
    write_cross_encoder(folder, checkpoint.config, checkpoint.weights, precision=precision)
    return origin.manifest(
        folder,
        layout="kv",
        architecture=checkpoint.architecture,
        read=(*checkpoint.files, *read),
        precision=precision,
    )


def try_cross_encoder(folder: Path) -> None:
    """Open the model as a worker does; raise ModelError where that fails, or the tokenizer is another model's."""
    from worker.engine.cross_encoder.model import CrossEncoder
    from worker.engine.cross_encoder.pair_reader import open_pair_reader  # loads onnxruntime

    open_pair_reader(folder, CrossEncoder.open(folder))
