"""
Reference implementations of a checkpoint: transformers, which defines what it computes, or a plain one in numpy.

Knows: which of the two this machine has. Does not know: models that kvjobs runs.
"""

from importlib.util import find_spec
from pathlib import Path

from worker.graphs.architectures import MT5, T5
from worker.model_tools.verify.numpy_causal import NumpyCausal
from worker.model_tools.verify.numpy_cross_encoder import NumpyCrossEncoder
from worker.model_tools.verify.numpy_seq2seq import NumpySeq2Seq, NumpyT5
from worker.model_tools.verify.transformers_references import (
    TransformersCausal,
    TransformersCrossEncoder,
    TransformersSeq2Seq,
)
from worker.models.checkpoint.checkpoint import Checkpoint

# Each computes a checkpoint without a cache, one sentence, text or pair at a time, and has a name for results.
Seq2SeqReference = TransformersSeq2Seq | NumpySeq2Seq | NumpyT5
CausalReference = TransformersCausal | NumpyCausal
CrossEncoderReference = TransformersCrossEncoder | NumpyCrossEncoder


def open_cross_encoder_reference(folder: Path) -> CrossEncoderReference:
    """As `open_seq2seq_reference`."""
    return TransformersCrossEncoder.open(folder) if _has_transformers() else NumpyCrossEncoder.open(folder)


def open_seq2seq_reference(folder: Path) -> Seq2SeqReference:
    """The best reference of the checkpoint in `folder` that this machine has; raises ModelError for a damaged one."""
    return TransformersSeq2Seq.open(folder) if _has_transformers() else open_numpy_seq2seq(folder)


def open_numpy_seq2seq(folder: Path) -> Seq2SeqReference:
    """The plain reference of the checkpoint in `folder`; raises ModelError for a damaged one."""
    checkpoint = Checkpoint.open(folder)
    reference = NumpyT5 if checkpoint.architecture in (T5, MT5) else NumpySeq2Seq
    return reference(checkpoint.config, checkpoint.weights)


def open_causal_reference(folder: Path) -> CausalReference:
    """As `open_seq2seq_reference`; also raises ModelError for a checkpoint that the reference does not know."""
    is_gguf = folder.is_file()  # transformers has no numbers for a GGUF file that it did not make itself
    return TransformersCausal.open(folder) if _has_transformers() and not is_gguf else NumpyCausal.open(folder)


def _has_transformers() -> bool:
    return bool(find_spec("torch") and find_spec("transformers"))
