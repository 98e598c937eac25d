"""What a causal model answers, to be compared with what its stages answer: log-probabilities that are read in every way
that a reader knows, and continuations with the cache and without it.

Knows: how to ask an open model. Does not know: whether it is split.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.harness.rows import Ids, equal_tokens
from jobs.tasks.shared_options import CachePolicy
from worker.engine.causal.native.calls import CallLimits
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.native.reader import PackedReader
from worker.engine.causal.protocol import Group, LogProbs, read_all
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation_rules import ContinuationRules

_CALL_TOKENS = 64  # the most of one call: more and smaller calls than a worker's, which has 512
_SEED = 7


@dataclass(frozen=True, slots=True)
class Questions:
    """What a model is asked."""

    groups: Mapping[str, Sequence[Group]]  # by the way in which they are read
    prompts: Sequence[Ids]
    new_tokens: int
    rows: int  # that run at a time; fewer than prompts, so that rows are refilled

    @classmethod
    def draw(cls, vocab_size: int, new_tokens: int) -> "Questions":
        """Random ids, the same in every run."""
        rng = np.random.default_rng(_SEED)

        def some(*lengths: int) -> list[Ids]:
            return [rng.integers(0, vocab_size, length).tolist() for length in lengths]

        (prefix,) = some(_CALL_TOKENS + 26)
        return cls(
            groups={
                "packed": [Group([], [ids]) for ids in some(3, 17, 40, 9, 28, 61)],
                "in chunks": [Group([], some(2 * _CALL_TOKENS + 30))],
                # More than one call has room for: each call rolls the cache back to the prefix.
                "behind a prefix": [Group(prefix, some(1, 2, 30, 30, 25, 14, 50, 9))],
            },
            prompts=some(4, 23, 11, 37, 2, 16),
            new_tokens=new_tokens,
            rows=4,
        )


@dataclass(frozen=True, slots=True)
class Answers:
    """What it answered."""

    log_probs: Mapping[str, LogProbs]  # one after the other, by the way in which they were read
    ids: Mapping[str, Sequence[Ids]]  # of each prompt's continuation, by cache: on, off
    ids_log_probs: Mapping[str, Sequence[float]]  # of each continuation


@dataclass(frozen=True, slots=True)
class Differences:
    """How far two answers are from each other."""

    log_probs: dict[str, float]  # the largest difference, in nats
    num_log_probs: int
    ids: dict[str, float]  # the share of equal ids
    num_ids: int  # of each
    ids_log_probs: float  # the largest difference, in nats


def answer(folder: Path, questions: Questions) -> Answers:
    """Open a model and ask it."""
    model = NativeCausal.open(folder)
    reader = PackedReader(model.graphs, CallLimits(tokens=_CALL_TOKENS))
    log_probs = {
        way: np.concatenate([array for arrays in read_all(reader, groups, RunContext()) for array in arrays])
        for way, groups in questions.groups.items()
    }
    rules, ids, sums = ContinuationRules(max_new_tokens=questions.new_tokens), {}, {}
    for mode in ("on", "off"):
        generator = model.new_generator(CachePolicy(mode))
        ended = generator.generate(questions.prompts, rules, RunContext(), batch_size=questions.rows)
        found = dict(pair for some in ended for pair in some)
        ids[mode] = [list(found[place].ids) for place in range(len(found))]
        sums[mode] = [found[place].log_prob for place in range(len(found))]
    return Answers(log_probs, ids, sums)


def differences(found: Answers, wanted: Answers) -> Differences:
    """Of a split model from the whole one."""
    return Differences(
        log_probs={way: _largest(found.log_probs[way], wanted.log_probs[way]) for way in wanted.log_probs},
        num_log_probs=sum(map(len, wanted.log_probs.values())),
        ids={mode: equal_tokens(found.ids[mode], wanted.ids[mode]) for mode in wanted.ids},
        num_ids=sum(map(len, wanted.ids["on"])),
        ids_log_probs=max(_largest(found.ids_log_probs[mode], wanted.ids_log_probs[mode]) for mode in wanted.ids),
    )


def _largest(found: Sequence[float] | LogProbs, wanted: Sequence[float] | LogProbs) -> float:
    """NaN where one of them is not finite: that is no equality."""
    return float(np.abs(np.subtract(found, wanted)).max())
