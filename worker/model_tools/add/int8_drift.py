"""
How far a new causal model in int8 is from its checkpoint in fp32, on a few paragraphs of ordinary text.

Knows: the sample, what a measurement may cost. Does not know: how to print, names of models.

The graphs in fp32 are built for this alone, and removed.
"""

import json
import math
import shutil
from pathlib import Path

from jobs.errors import KvjobsError, ModelError
from jobs.formatting import size
from jobs.process import available_cores
from worker.models.drift import Drift
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder
from worker.process.memory_limits import usable_memory

# Paragraphs in several languages, and code, which were written for this.
SAMPLE = Path(__file__).with_name("ordinary_text.jsonl")
_CODE = "code"  # the language of the sample that is none

_TOKENS = 2_000  # of the sample, at most
# Larger models, in bytes of int8, read fewer tokens in inverse proportion, so that no model takes much longer.
_LARGE = 1_000_000_000
_FEWEST = 200
_FP32 = 4  # bytes of a weight; of int8, 1
_MAX_NATS = 700.0  # of which there still is an exponential


def measure_drift(model: ModelFolder, manifest: Manifest, checkpoint: Path, scratch: Path) -> Drift:
    """Compare the model with graphs in fp32 of `checkpoint` (a folder, or a GGUF file), written into the empty folder
    `scratch`. Raises KvjobsError that says why it cannot be measured."""
    num_bytes = sum(record.bytes for record in manifest.files.values())
    _check_room(_FP32 * num_bytes, scratch)
    # These load onnx and onnxruntime.
    from worker.engine.causal.open import open_causal_model, open_causal_tokenizer
    from worker.model_tools.sample import read_documents
    from worker.model_tools.verify.causal import VerifiedCausal, compare_documents
    from worker.model_tools.verify.verify import build_fp32

    texts = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    tokenizer = open_causal_tokenizer(model.path)
    length = max_tokens(num_bytes) // len(texts)
    documents = [ids[: length + 1] for ids in read_documents(str(SAMPLE), tokenizer, limit=len(texts))]
    try:
        build_fp32(scratch, model.path, checkpoint, manifest, VerifiedCausal())
        threads = available_cores()
        ours, exact = (open_causal_model(path, threads=threads) for path in (model.path, scratch))
        check = compare_documents(ours, exact, documents)
    except MemoryError:
        raise ModelError("there is not enough memory for its graphs in fp32") from None
    except OSError as error:
        raise ModelError(f"its graphs in fp32 cannot be written: {error.strerror}") from None
    figures = (check.nats, check.perplexity, check.drift, check.worst)
    nats, perplexity_change, mean, worst = (math.nan if one is None else one for one in figures)
    if not all(map(math.isfinite, (nats, perplexity_change, mean, worst))) or nats > _MAX_NATS:
        raise ModelError("log-probabilities of the sample are not finite")
    return Drift(
        num_tokens=check.num_tokens or 0,
        num_languages=len({text["lang"] for text in texts} - {_CODE}),
        perplexity=math.exp(nats),
        perplexity_fp32=math.exp(nats) / (1.0 + perplexity_change),
        perplexity_change=perplexity_change,
        mean=mean,
        worst=worst,
    )


def max_tokens(num_bytes: int) -> int:
    """How many tokens of the sample a model of `num_bytes` in int8 reads."""
    return max(_FEWEST, min(_TOKENS, _TOKENS * _LARGE // max(1, num_bytes)))


def _check_room(needed: int, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise KvjobsError(f"its graphs in fp32 need up to {size(needed)} on the disk, and {size(free)} are free")
    memory = usable_memory()
    if memory < needed:
        raise KvjobsError(f"its graphs in fp32 need up to {size(needed)} of memory, and {size(memory)} are free")
