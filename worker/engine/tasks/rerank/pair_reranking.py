"""
Reranking with a cross-encoder: it reads a query and a candidate together and gives their relevance.

    payload  -> query, candidates
    join     -> the ids of each pair; a pair that is too long is cut
    score    -> a logit for each, many pairs a call; the model's activation makes a score of it
    rank     -> outcomes            in the order of the payloads

Knows: one model, one lane. Does not know: jobs, shards, tables, files.
"""

from collections.abc import Sequence
from functools import cache

from jobs.answers import Answers
from jobs.errors import SpecError
from jobs.tasks.rerank import RerankOptions
from worker.engine.cross_encoder.model import CrossEncoder, PairIds, score_all
from worker.engine.cross_encoder.pair_reader import PairReader
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.rerank.rerank_payload import BAD_PAYLOAD, ranking_of, read_candidates, sequences_of
from worker.text.text_pair_tokenizer import PairTokens


class PairReranker:
    """One lane's engine for one model: the model is shared."""

    def __init__(self, model: CrossEncoder, reader: PairReader) -> None:
        self.model = model
        self._reader = reader
        self._scorer = model.new_scorer()

    @property
    def buffer_stats(self) -> BufferStats:
        return self._scorer.buffer_stats

    def rerank(self, payloads: Sequence[str], options: RerankOptions, run: RunContext) -> Answers:
        """Rank the candidates of every query; payloads and outcomes are as in `Reranker.rerank`.

        Raises SpecError for a `max_length` that the model cannot follow, Stopped if the run is to end.
        """
        max_length = self._max_length(options.max_length)
        tokenizer = self._reader.tokenizer
        encode = cache(tokenizer.encode)  # equal texts are tokenized once

        def join(query: str, document: str) -> PairTokens:
            return tokenizer.join(encode(query), encode(document), max_length)

        with run.measure("tokenize", rows=len(payloads)) as counted:
            queries = [read_candidates(payload, join) for payload in payloads]
            pairs = [PairIds(pair.ids, pair.types) for query in queries if query for pair in sequences_of(query)]
            counted.tokens = sum(len(pair.ids) for pair in pairs)
        scores = map(self._reader.score, score_all(self._scorer, pairs, run))
        return Answers(
            outcomes=[BAD_PAYLOAD if query is None else ranking_of(query, scores, options.fusion) for query in queries],
            timings=run.timings,
        )

    def _max_length(self, asked: int | None) -> int:
        if asked is None:
            return self._reader.max_length
        least = self._reader.tokenizer.template.num_special + 2
        if not least <= asked <= self.model.max_positions:
            raise SpecError(
                f"max_length is {asked}, and a pair of this model has {least} to {self.model.max_positions} tokens, "
                "special tokens included: change --max-length"
            )
        return asked
