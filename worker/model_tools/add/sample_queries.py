"""Paragraphs of a sample as queries with candidates, scored by cross-encoders: their beginnings are the queries."""

from collections.abc import Sequence
from pathlib import Path

from jobs.process import available_cores
from worker.engine.cross_encoder.open import PairReader, open_cross_encoder, open_pair_reader
from worker.engine.cross_encoder.protocol import PairIds, score_all
from worker.engine.runtime.run_context import RunContext

_CANDIDATES = 4
_QUERY_TOKENS = 12
_PAIR_TOKENS = 64  # at most


def score_queries(folders: Sequence[Path], texts: Sequence[str], max_tokens: int) -> list[list[list[float]]]:
    """By the models in `folders`, which read as the first does: the logits of the candidates of each query. As many
    queries as have about `max_tokens` together, and two at least."""
    models = [open_cross_encoder(folder, threads=available_cores()) for folder in folders]
    pairs = _pairs(texts, open_pair_reader(folders[0], models[0]), max_tokens)
    logits = [score_all(model.new_scorer(), pairs, RunContext()) for model in models]
    starts = range(0, len(pairs), _CANDIDATES)
    return [[found[start : start + _CANDIDATES] for start in starts] for found in logits]


def _pairs(texts: Sequence[str], reader: PairReader, max_tokens: int) -> list[PairIds]:
    """The beginning of each paragraph with the rest of it, and with that of the next ones."""
    tokens = [reader.tokenizer.encode(text) for text in texts]
    length = min(_PAIR_TOKENS, reader.max_length)
    num_queries = min(len(texts), max(2, max_tokens // (_CANDIDATES * length)))
    joined = (
        reader.tokenizer.join(
            tokens[query][:_QUERY_TOKENS], tokens[(query + place) % len(texts)][_QUERY_TOKENS:], length
        )
        for query in range(num_queries)
        for place in range(_CANDIDATES)
    )
    return [PairIds(one.ids, one.types) for one in joined]
