"""
Reranking with a causal model that answers yes or no: Qwen3-Reranker's rule.

    score = p(yes) / (p(yes) + p(no))       of the token after the prompt (`worker.engine.tasks.rerank.yes_no_prompt`)

which is the softmax over the logits of the two tokens alone. Each prompt is read once, for both answers.

Knows: one model, one lane. Does not know: jobs, shards, tables, files.
"""

import math
from collections.abc import Sequence

from jobs.answers import Answers
from jobs.tasks.rerank import RerankOptions
from worker.engine.causal.protocol import CausalModel, Group, LogProbs, read_all
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.rerank.rerank_payload import BAD_PAYLOAD, ranking_of, read_candidates, sequences_of
from worker.engine.tasks.rerank.yes_no_prompt import BODY, YesNoPrompt, YesNoTokenizer
from worker.engine.tasks.tokenizers import check_vocabulary, sequence_limit


class YesNoReranker:
    """One lane's engine for one model: the model is shared, the reader's buffers are not."""

    def __init__(self, model: CausalModel, tokenizer: YesNoTokenizer) -> None:
        """Raises ModelError if the tokenizer does not belong to the model."""
        check_vocabulary(tokenizer, model)
        self.model = model
        self.reader = model.new_reader()
        self._tokenizer = tokenizer

    @property
    def buffer_stats(self) -> BufferStats:
        return self.reader.buffer_stats

    def rerank(self, payloads: Sequence[str], options: RerankOptions, run: RunContext) -> Answers:
        """Rank the candidates of every query; payloads and outcomes are as in `Reranker.rerank`.

        Raises SpecError for a model without the tokens of the prompt or the answers, and for a `max_length` that it
        cannot follow; Stopped if the run is to end.
        """
        max_length = sequence_limit(self.model, options.max_length)
        prompt = YesNoPrompt(self._tokenizer, options.template or BODY, max_length)
        with run.measure("tokenize", rows=len(payloads)) as counted:
            queries = [read_candidates(payload, prompt.make) for payload in payloads]
            groups = [
                Group(prompt_ids.ids, ((prompt.yes,), (prompt.no,)))
                for query in queries
                if query
                for prompt_ids in sequences_of(query)
            ]
            counted.tokens = sum(len(group.prefix) for group in groups)
        scores = map(_share_of_yes, read_all(self.reader, groups, run) if groups else [])
        return Answers(
            outcomes=[BAD_PAYLOAD if query is None else ranking_of(query, scores, options.fusion) for query in queries],
            timings=run.timings,
        )


def _share_of_yes(found: Sequence[LogProbs]) -> float:
    """p(yes) / (p(yes) + p(no)) from the log-probabilities of both, in float64; NaN stays NaN."""
    yes, no = (float(log_probs[0]) for log_probs in found)
    ratio = math.exp(-abs(yes - no))
    return 1 / (1 + ratio) if yes >= no else ratio / (1 + ratio)
