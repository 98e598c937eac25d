"""
How far a new model in int8 is from its checkpoint in fp32, on a few paragraphs of ordinary text: of a causal model,
the log-probabilities of their tokens; of a translation model, those of the translations that the graphs in fp32 make;
of a cross-encoder, the scores of their beginnings with the rest of them and of others.

Knows: the sample, what a measurement may cost. Does not know: how to print, names of models.

The graphs in fp32 are built for this alone, and removed.
"""

import json
import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.errors import KvjobsError, ModelError
from jobs.system.process import available_cores
from jobs.text.formatting import size
from worker.models.drift import AnyDrift, Drift, RelevanceDrift
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder
from worker.models.model_kind import ModelKind
from worker.process.memory_limits import usable_memory

if TYPE_CHECKING:
    from worker.engine.causal.protocol import LogProbs

    Scores = list[LogProbs]  # of each text

# Paragraphs in several languages, and code, which were written for this.
SAMPLE = Path(__file__).with_name("ordinary_text.jsonl")
_CODE = "code"  # the language of the sample that is none

_TOKENS = 2_000  # of the sample, at most
# Larger models, in bytes of int8, read fewer tokens in inverse proportion, so that no model takes much longer.
_LARGE = 1_000_000_000
_FEWEST = 200
_TOKENS_OF_PAIRS = 3  # for each token of a text: without a head over a vocabulary a model reads faster
_FP32 = 4  # bytes of a weight; of int8, 1
_MAX_NATS = 700.0  # of which there still is an exponential


def measure_drift(model: ModelFolder, manifest: Manifest, checkpoint: Path, scratch: Path) -> AnyDrift:
    """Compare the model with graphs in fp32 of `checkpoint` (a folder, or a GGUF file), written into the empty folder
    `scratch`. Raises KvjobsError that says why it cannot be measured."""
    num_bytes = sum(record.bytes for record in manifest.files.values())
    _check_room(num_bytes + (_FP32 - 1) * _int8_bytes(model.path), scratch)
    kind, limit = ModelKind.of_architecture(manifest.architecture), max_tokens(num_bytes)
    score = _score_translations if kind is ModelKind.TRANSLATION else _score
    try:
        if kind is ModelKind.CROSS_ENCODER:
            return _measure_scores(model, manifest, checkpoint, scratch, _TOKENS_OF_PAIRS * limit)
        ours, exact, num_languages = score(model, manifest, checkpoint, scratch, limit)
    except MemoryError:
        raise ModelError("there is not enough memory for its graphs in fp32") from None
    except OSError as error:
        raise ModelError(f"its graphs in fp32 cannot be written: {error.strerror}") from None
    return _drift(ours, exact, num_languages)


def _score(
    model: ModelFolder, manifest: Manifest, checkpoint: Path, scratch: Path, limit: int
) -> "tuple[Scores, Scores, int]":
    """The log-probabilities that a causal model and its graphs in fp32 give, and the number of languages."""
    # These load onnx and onnxruntime.
    from worker.engine.causal.open import open_causal_model, open_causal_tokenizer
    from worker.model_tools.sample import read_documents
    from worker.model_tools.verify.causal import VerifiedCausal, score_documents
    from worker.model_tools.verify.verify import build_fp32

    texts = _texts()
    num_texts = sum(map(len, texts.values()))
    documents = read_documents(str(SAMPLE), open_causal_tokenizer(model.path), limit=num_texts)
    documents = [ids[: limit // num_texts + 1] for ids in documents]
    build_fp32(scratch, model.path, checkpoint, manifest, VerifiedCausal())
    ours, exact = (
        score_documents(open_causal_model(folder, threads=available_cores()), documents)
        for folder in (model.path, scratch)
    )
    return ours, exact, len(texts.keys() - {_CODE})


def _score_translations(
    model: ModelFolder, manifest: Manifest, checkpoint: Path, scratch: Path, limit: int
) -> "tuple[Scores, Scores, int]":
    """As `_score`, of the translations that the graphs in fp32 make; those that need an id that the head in int8 lacks
    are left out."""
    from worker.engine.seq2seq.open import open_seq2seq_model
    from worker.model_tools.add.drift_sample import translate_sample
    from worker.model_tools.translation_scores import can_score, score_translations
    from worker.model_tools.verify.seq2seq import VerifiedSeq2Seq
    from worker.model_tools.verify.verify import build_fp32
    from worker.text.translation.translation_tokenizer import open_translation_tokenizer

    texts = {language: ones for language, ones in _texts().items() if language != _CODE}
    build_fp32(scratch, model.path, checkpoint, manifest, VerifiedSeq2Seq())
    exact = open_seq2seq_model(scratch, threads=available_cores())
    tokenizer = open_translation_tokenizer(model.path)
    found, num_languages = translate_sample(texts, tokenizer, exact, manifest.source, limit // 2)
    ours = open_seq2seq_model(model.path, threads=available_cores())
    found = can_score(ours, found)
    return score_translations(ours, found), score_translations(exact, found), num_languages


def _measure_scores(
    model: ModelFolder, manifest: Manifest, checkpoint: Path, scratch: Path, limit: int
) -> RelevanceDrift:
    """The drift of a cross-encoder's scores."""
    from worker.model_tools.add.drift_sample import score_queries
    from worker.model_tools.verify.cross_encoder import VerifiedCrossEncoder
    from worker.model_tools.verify.verify import build_fp32

    build_fp32(scratch, model.path, checkpoint, manifest, VerifiedCrossEncoder())
    texts = [text for ones in _texts().values() for text in ones]
    ours, exact = score_queries((model.path, scratch), texts, limit)
    return RelevanceDrift.between(ours, exact)


def _texts() -> dict[str, list[str]]:
    """The sample by language."""
    found: dict[str, list[str]] = {}
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        found.setdefault(record["lang"], []).append(record["text"])
    return found


def _drift(ours: "Scores", exact: "Scores", num_languages: int) -> Drift:
    import numpy as np

    mine, theirs = (np.concatenate([np.zeros(0), *scores]).astype(np.float64) for scores in (ours, exact))
    gaps = np.abs(mine - theirs)
    if not len(gaps):
        raise ModelError("the graphs in fp32 translate the sample with tokens that the head in int8 lacks")
    if not np.isfinite(gaps).all() or max(-mine.mean(), -theirs.mean()) > _MAX_NATS:
        raise ModelError("log-probabilities of the sample are not all finite")
    return Drift(
        num_tokens=len(gaps),
        num_languages=num_languages,
        perplexity=math.exp(-mine.mean()),
        perplexity_fp32=math.exp(-theirs.mean()),
        perplexity_change=math.expm1(theirs.mean() - mine.mean()),
        mean=float(gaps.mean()),
        worst=float(gaps.max()),
    )


def max_tokens(num_bytes: int) -> int:
    """How many tokens of the sample a model of `num_bytes` in int8 reads."""
    return max(_FEWEST, min(_TOKENS, _TOKENS * _LARGE // max(1, num_bytes)))


def _int8_bytes(folder: Path) -> int:
    from onnx import TensorProto

    from worker.graphs.weights import count_bytes, read_graph

    return count_bytes([read_graph(file) for file in folder.glob("*.onnx")], TensorProto.INT8)


def _check_room(needed: int, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise KvjobsError(f"its graphs in fp32 need up to {size(needed)} on the disk, and {size(free)} are free")
    memory = usable_memory()
    if memory < needed:
        raise KvjobsError(f"its graphs in fp32 need up to {size(needed)} of memory, and {size(memory)} are free")
