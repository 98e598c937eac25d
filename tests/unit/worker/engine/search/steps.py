"""Decoding steps without a model, to test a search with, and a slow reference of beam search."""

import dataclasses
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import Hypothesis

START, EOS = 1, 0


class ScriptedStep:
    """The scripted token, `script[step][sentence]`, has the highest logit."""

    def __init__(self, script: list[list[int]], vocab_size: int = 10) -> None:
        self.script = script
        self.vocab_size = vocab_size
        self.sentences = list(range(len(script[0])))
        self.fed: list[list[int]] = []

    def step(self, last_ids: Any) -> Any:
        self.fed.append(last_ids.tolist())
        logits = np.zeros((len(self.sentences), self.vocab_size), np.float32)
        for row, sentence in enumerate(self.sentences):
            logits[row, self.script[len(self.fed) - 1][sentence]] = 5.0
        return logits

    def select(self, rows: Any) -> None:
        self.sentences = [self.sentences[row] for row in rows]


class RandomStep:
    """Random logits that depend only on the sentence (its seed) and on the tokens fed so far."""

    def __init__(self, seeds: list[int], vocab_size: int, *, eos_bias: float = 1.0, broken: Any = None) -> None:
        self.rows: list[tuple[int, tuple[int, ...]]] = [(seed, ()) for seed in seeds]
        self.vocab_size = vocab_size
        self.eos_bias = eos_bias
        self.broken = broken or {}  # (seed, step) or (seed, tokens fed) -> the value of logit 3
        self.num_rows: list[int] = []

    def step(self, last_ids: Any) -> Any:
        assert len(last_ids) == len(self.rows)
        self.rows = [(seed, (*fed, int(token))) for (seed, fed), token in zip(self.rows, last_ids, strict=True)]
        self.num_rows.append(len(self.rows))
        return np.stack([self.logits(seed, fed) for seed, fed in self.rows])

    def select(self, rows: Any) -> None:
        self.rows = [self.rows[row] for row in rows]

    def admit(self, seeds: Sequence[int]) -> None:
        """Add sentences after the rows of the others."""
        self.rows += [(seed, ()) for seed in seeds]

    def logits(self, seed: int, fed: tuple[int, ...]) -> Any:
        rng = np.random.default_rng(zlib.crc32(repr((seed, fed)).encode()))
        logits = rng.normal(size=self.vocab_size).astype(np.float32) * 2
        logits[EOS] += self.eos_bias
        for where in ((seed, len(fed) - 1), (seed, fed)):
            if where in self.broken:
                logits[3] = self.broken[where]
        return logits


def rules(**changes: Any) -> GenerationConfig:
    return dataclasses.replace(GenerationConfig(start_id=START, eos_id=EOS, max_new_tokens=8), **changes)


def ids(hypotheses: list[Hypothesis]) -> list[tuple[int, ...]]:
    return [hypothesis.ids for hypothesis in hypotheses]


def slow_beam_search(seed: int, vocab_size: int, eos_bias: float, rules: GenerationConfig) -> list[Hypothesis]:
    """Slow reference: one sentence, lists and floats, all candidates sorted; after transformers' `_beam_search`."""
    steps = RandomStep([], vocab_size, eos_bias=eos_bias)
    k = rules.num_beams
    running = [(0.0, (START,))]
    ended: list[Hypothesis] = []
    for length in range(1, rules.max_new_tokens + 1):
        candidates = []
        for score, tokens in running:
            logits = steps.logits(seed, tokens).astype(np.float64)
            log_probs = logits - np.log(np.exp(logits).sum())
            log_probs[list(rules.suppressed_ids)] = -np.inf
            if length <= rules.min_new_tokens:
                log_probs[EOS] = -np.inf
            if rules.forced_eos_id is not None and length == rules.max_new_tokens:
                log_probs[:] = -np.inf
                log_probs[rules.forced_eos_id] = 0.0
            possible = np.flatnonzero(np.isfinite(log_probs)).tolist()
            candidates += [(score + log_probs[token], (*tokens, token)) for token in possible]
        candidates = sorted(candidates, key=lambda candidate: -candidate[0])[: 2 * k]
        last = length == rules.max_new_tokens
        running = [beam for beam in candidates if beam[1][-1] != EOS and not last][:k]
        ended += [
            Hypothesis(tokens[1:], score, score / length**rules.length_penalty, truncated=False)
            for score, tokens in candidates[:k]
            if tokens[-1] == EOS or last
        ]
        ended = sorted(ended, key=lambda hypothesis: -hypothesis.score)[:k]
        if last or (len(ended) == k and rules.early_stopping is True):
            break
        reach = rules.max_new_tokens if rules.early_stopping == "never" and rules.length_penalty > 0 else length
        if len(ended) == k and running[0][0] / reach**rules.length_penalty <= ended[-1].score:
            break
    return ended
