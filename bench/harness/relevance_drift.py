"""How far one cross-encoder is from another that should give the same: in scores, and in the order of candidates."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from worker.engine.cross_encoder.open import open_cross_encoder, open_pair_reader
from worker.engine.cross_encoder.protocol import PairIds, score_all
from worker.engine.runtime.run_context import RunContext

_QUERIES, _CANDIDATES = 100, 5
_QUERY_WORDS = 8


@dataclass(frozen=True, slots=True)
class RelevanceDrift:
    """How far a model is from the reference. Scores count in standard deviations of the reference's: the head is of
    random numbers, so that a score has no unit."""

    mean: float
    worst: float
    reordered: int  # of `queries`
    queries: int


def read_queries(folder: Path, texts: Sequence[str]) -> NDArray[np.float64]:
    """The logits of the model in `folder`: (queries, candidates).

    A query is a piece of a text; its candidates are that text and those behind it.
    """
    model = open_cross_encoder(folder)
    reader = open_pair_reader(folder, model)
    pairs = []
    for place in range(_QUERIES):
        words = texts[place % len(texts)].split()
        start = place // len(texts) * _QUERY_WORDS
        query = reader.tokenizer.encode(" ".join(words[start : start + _QUERY_WORDS]))
        for other in range(_CANDIDATES):
            document = reader.tokenizer.encode(texts[(place + other) % len(texts)])
            joined = reader.tokenizer.join(query, document, reader.max_length)
            pairs.append(PairIds(joined.ids, joined.types))
    return np.array(score_all(model.new_scorer(), pairs, RunContext())).reshape(_QUERIES, _CANDIDATES)


def relevance_drift(logits: NDArray[np.float64], reference: NDArray[np.float64]) -> RelevanceDrift:
    gaps = np.abs(logits - reference) / reference.std()
    orders = logits.argsort(axis=1) != reference.argsort(axis=1)
    return RelevanceDrift(
        mean=float(gaps.mean()),
        worst=float(gaps.max()),
        reordered=int(orders.any(axis=1).sum()),
        queries=len(reference),
    )
