"""What a translation model makes of sentences: its greedy translations, and the log-probabilities of given ones."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.harness.text_drift import Read
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.batches import IdPair, make_pair_batches
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.engine.seq2seq.protocol import Seq2SeqModel, decode_all

Ids = tuple[int, ...]


def translate(folder: Path, sources: Sequence[Sequence[int]]) -> list[Ids]:
    """Greedy translations by the model in `folder`, the end included."""
    return _greedy(open_seq2seq_model(folder), sources)


def read_translations(folder: Path, sources: Sequence[Sequence[int]], targets: Sequence[Ids]) -> Read:
    """Score the targets with the model in `folder`, and translate the sources greedily."""
    model = open_seq2seq_model(folder)
    scorer, run = model.new_scorer(), RunContext()
    pairs = [IdPair(source, target) for source, target in zip(sources, targets, strict=True)]
    found = [np.zeros(0)] * len(pairs)
    for batch in make_pair_batches(pairs):
        for place, log_probs in zip(batch, scorer.log_probs([pairs[place] for place in batch], run), strict=True):
            found[place] = log_probs.astype(np.float64)
    return Read(np.concatenate(found), _greedy(model, sources))


def _greedy(model: Seq2SeqModel, sources: Sequence[Sequence[int]]) -> list[Ids]:
    rules = dataclasses.replace(model.generation, num_beams=1)
    found = decode_all(model.new_decoder(), sources, rules, RunContext(), batch_size=None)
    return [tuple(best.ids) for best, *_ in found]
