"""
Reranking: candidates are sorted by how likely the model finds the query after the document, or the reverse.

    payload  -> query, candidates
    template -> given | scored      tokens of each pair; a document that is too long is cut
    share    -> groups              a beginning that pairs share is computed once, also across queries
    read     -> log-probabilities   the mean of a candidate's is its score
    rank     -> outcomes            in the order of the payloads

Knows: one model, one lane. Does not know: jobs, shards, tables, files.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import isfinite, nan

import numpy as np

from jobs.answers import Answers
from jobs.errors import ModelError
from jobs.outcome import Ranking
from jobs.ranking import NON_FINITE
from jobs.tasks.rerank import RerankOptions
from worker.engine.causal.prefix_sharing import GroupMember, Pair, TokenIds, group_by_prefix, group_separately
from worker.engine.causal.protocol import CausalModel, LogProbs, read_all
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.rerank.prompt_templates import Template, template_of
from worker.engine.tasks.rerank.rerank_payload import (
    BAD_PAYLOAD,
    ReadCandidate,
    ranking_of,
    read_candidates,
    sequences_of,
)
from worker.engine.tasks.tokenizers import TextTokenizer, check_vocabulary, sequence_limit

NO_TOKEN = "the tokenizer makes no token of it"


@dataclass(frozen=True, slots=True)
class _PromptSequence:
    """The tokens of a query and a document."""

    pair: Pair  # the given and the scored ones
    is_cut: bool  # whether the document was cut to fit

    @property
    def ids(self) -> TokenIds:
        given, scored = self.pair
        return given + scored


class Reranker:
    """One lane's engine for one model: the model is shared, the reader's buffers are not."""

    def __init__(self, model: CausalModel, tokenizer: TextTokenizer) -> None:
        """Raises ModelError if the tokenizer does not belong to the model."""
        check_vocabulary(tokenizer, model)
        self.model = model
        self.reader = model.new_reader()
        self._tokenizer = tokenizer

    @property
    def buffer_stats(self) -> BufferStats:
        return self.reader.buffer_stats

    def rerank(self, payloads: Sequence[str], options: RerankOptions, run: RunContext) -> Answers:
        """Rank the candidates of every query. Raises SpecError if the model cannot do what the options ask, Stopped if
        the run is to end.

        A payload is JSON: `{"query": ..., "candidates": [{"id": ..., "text": ..., "score"?: ...}, ...]}`. A candidate
        that cannot be scored keeps its rank, with the reason as its error. No candidate or query affects the score of
        another.
        """
        max_length = sequence_limit(self.model, options.max_length)
        template = template_of(options)
        with run.measure("tokenize", rows=len(payloads)) as counted:
            sequences = _Sequences(template, self._tokenizer, max_length)
            queries = [read_candidates(payload, sequences.make) for payload in payloads]
            pairs = [sequence.pair for query in queries if query for sequence in sequences_of(query)]
            counted.tokens = sum(len(given) + len(scored) for given, scored in pairs)
        grouped = group_by_prefix(pairs) if options.prefix_cache else group_separately(pairs)
        found = read_all(self.reader, grouped.groups, run) if grouped.groups else []
        members = iter(grouped.members)
        return Answers(
            outcomes=[
                BAD_PAYLOAD
                if query is None
                else _rank(query, [next(members) for _ in sequences_of(query)], found, options.fusion)
                for query in queries
            ],
            timings=run.timings,
        )


class _Sequences:
    """Makes the tokens of query and document, `max_length` at most. Equal texts are tokenized once."""

    def __init__(self, template: Template, tokenizer: TextTokenizer, max_length: int) -> None:
        self._template = template
        self._max_length = max_length
        self._start: TokenIds = () if tokenizer.bos_id is None else (tokenizer.bos_id,)

        @cache
        def encode(text: str) -> TokenIds:
            return tuple(tokenizer.encode(text).ids)

        self._encode = encode

    def make(self, query: str, document: str) -> _PromptSequence:
        """Raises ModelError where there is no room for the document, or nothing to score."""
        before, after = self._template.split(query, document)
        given, scored = self._start + self._encode(before), self._encode(after)
        if is_cut := len(given) + len(scored) > self._max_length:
            if self._template.scores_query:
                given = self._cut_given(document, scored)
            else:
                scored = self._cut_scored(given, scored)
        if not given or not scored:
            raise ModelError(NO_TOKEN)
        return _PromptSequence((given, scored), is_cut)

    def _cut_given(self, document: str, query: TokenIds) -> TokenIds:
        """Cut off the end of the document; the template's text around it stays."""
        template = self._template
        tail = self._encode(template.between.rstrip())
        room = self._max_length - len(self._start) - len(tail) - len(query)
        num_before = len(self._encode(template.before))
        self._check_room(room - num_before)
        return self._start + self._encode(template.before + document)[:room] + tail

    def _cut_scored(self, given: TokenIds, document: TokenIds) -> TokenIds:
        room = self._max_length - len(given)
        self._check_room(room)
        return document[:room]

    def _check_room(self, room: int) -> None:
        """Raise unless there is room for at least one token of the document."""
        if room < 1:
            raise ModelError(f"the query alone fills the {self._max_length} tokens that a sequence may have")


def _rank(
    candidates: Sequence[ReadCandidate[_PromptSequence]],
    members: Sequence[GroupMember],
    found: Sequence[list[LogProbs]],
    fusion: float,
) -> Ranking:
    """The ranking of a query. `members`: for each candidate with tokens, its group and suffix; `found`: the
    log-probabilities of each group's suffixes."""
    scores = [_mean(found[member.group][member.suffix]) for member in members]
    return replace(
        ranking_of(candidates, iter(scores), fusion, not_finite=NON_FINITE),
        num_tokens=sum(member.num_scored for member, score in zip(members, scores, strict=True) if isfinite(score)),
        num_computed=sum(member.num_computed for member in members),
        num_shared=sum(member.num_shared for member in members),
    )


def _mean(log_probs: LogProbs) -> float:
    """The mean in float64; NaN if any log-probability is not finite."""
    if not np.isfinite(log_probs).all():
        return nan
    return float(np.sum(log_probs, dtype=np.float64)) / len(log_probs)
