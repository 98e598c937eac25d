"""A random model whose translations end by themselves, run by the engine of the workers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.checkpoints.natural_ends import end_naturally
from tests.checkpoints import random_weights, write_marian_checkpoint, write_weights
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.seq2seq.protocol import decode_all
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model

WIDTH, VOCAB_SIZE, EOS_ID, LONGEST = 256, 72, 0, 24
WORDS = {length: 40 + length for length in range(1, LONGEST + 1)}


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.INT8])
def test_a_translation_has_as_many_tokens_as_the_first_word_of_its_source_says(
    tmp_path: Path, precision: Precision
) -> None:
    request = Request(source=str(write(tmp_path)), precision=precision, name="made")
    add_model(request, tmp_path)
    network = NativeSeq2Seq.open(tmp_path / "made")
    rng = np.random.default_rng(2)
    lengths = rng.integers(4, LONGEST + 1, 40).tolist()
    sources = [[WORDS[one], *rng.integers(1, 40, rng.integers(3, 30)).tolist(), EOS_ID] for one in lengths]

    rules = replace(network.generation, num_beams=1)
    found = decode_all(network.new_decoder(), sources, rules, RunContext(), batch_size=8)

    assert [len([one for one in best[0].ids if one != EOS_ID]) for best in found] == lengths


def write(folder: Path) -> Path:
    """A checkpoint of small random weights, as large models draw them."""
    checkpoint = write_marian_checkpoint(
        folder / "checkpoint", width=WIDTH, heads=4, vocab_size=VOCAB_SIZE, max_length=48
    )
    weights = random_weights(
        width=WIDTH, layers=2, ffn=32, vocab_size=VOCAB_SIZE, target_vocab_size=None, pad_id=VOCAB_SIZE - 1, seed=0
    )
    for name, weight in weights.items():
        if "layer_norm" in name:
            weight[:] = name.endswith("weight")
        else:
            weight *= 0.3
    end_naturally(weights, heads=4, eos_id=EOS_ID, words=WORDS)
    write_weights(checkpoint, weights, dtype="F32", shards=1)
    return checkpoint
