"""
The interface of a translation model for tasks; native and exported graphs both implement it.

Knows: segments and pairs as ids. Does not know: text, graphs, sessions.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jobs.tasks.shared_options import CachePolicy
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.logit_rules import Floats
from worker.engine.seq2seq.batches import IdPair
from worker.models.manifest import AttentionChoice
from worker.text.marks.known_words import StandIns

BATCH_SIZE = 32  # segments that run at a time, where neither the user nor the model's sizes say how many
Decoded = list[tuple[int, list[Hypothesis]]]  # the index of each segment, and its hypotheses, best first
NEVER_CACHED = 1 << 30  # steps: more than any search has


class Decoder(Protocol):
    """One lane's buffers for one model and one cache policy, and the search through them."""

    @property
    def buffer_stats(self) -> BufferStats: ...
    def decode(
        self,
        segments: Sequence[Sequence[int]],
        rules: GenerationConfig,
        run: RunContext,
        *,
        batch_size: int | None,
    ) -> Iterator[Decoded]:
        """Yield every segment once, in any order, by its index among `segments`, which are ids with end-of-sentence.

        At most `batch_size` segments run at a time (None: as many as suit the model), and fewer if they do not fit into
        memory. Raises the error of a single segment that does not fit, any other error of the model, and Stopped
        between two steps.
        """


class TargetScorer(Protocol):
    """Scores given targets, for one lane. It keeps no memory between calls."""

    def has_ids(self, ids: Sequence[int]) -> NDArray[np.bool_]:
        """Which of these ids the model's head has."""

    def log_probs(self, pairs: Sequence[IdPair], run: RunContext) -> list[Floats]:
        """For each pair, log p(token | source, target tokens before it) of every target token, natural logarithm.

        The pairs are a batch of `pair_batches`, longest source first, and the head has all their ids. Raises what the
        model raises.
        """


class AttentionReader(Protocol):
    """Reads where the decoder attends in given translations, for one lane. It keeps no memory between calls."""

    @property
    def num_layers(self) -> int:
        """The layers of the decoder."""

    @property
    def choice(self) -> AttentionChoice:
        """The attention by which this model aligns words."""

    def attention(
        self, pairs: Sequence[IdPair], layers: Sequence[int], run: RunContext, head: int | None = None
    ) -> list[NDArray[np.float32]]:
        """For each pair, where the decoder attends: (T, S), the mean over heads and layers, so that a row sums to 1.
        Row t is the step that reads the target's token t - 1 (the start token at first) and writes its token t.
        `head`: this alone, of a single layer.

        The pairs are a batch of `make_pair_batches`. Raises what the model raises.
        """

    def attention_by_head(self, pairs: Sequence[IdPair], layer: int, run: RunContext) -> list[NDArray[np.float32]]:
        """The same of each head of a layer: (N, T, S)."""


class Seq2SeqModel(Protocol):
    """An open translation model, shared by the lanes of a process."""

    @property
    def generation(self) -> GenerationConfig:
        """The search settings of the model's own files."""

    @property
    def max_positions(self) -> int:
        """The longest source, and the longest target, in tokens."""

    @property
    def is_running(self) -> bool:
        """False once a process that runs a part of the model has ended: it has to be opened again."""

    @property
    def is_batch_invariant(self) -> bool:
        """Whether a segment gets the same bits whatever other segments it is decoded with."""

    @property
    def stand_ins(self) -> StandIns:
        """The words that may stand in for placeholders."""

    @property
    def has_cache(self) -> bool:
        """Whether the graphs take keys and values of earlier steps."""

    def check_cache(self, policy: CachePolicy) -> None:
        """Raise SpecError where the graphs cannot follow `policy`."""

    def new_decoder(self, policy: CachePolicy = CachePolicy()) -> Decoder:  # noqa: B008 - frozen
        """A decoder with its own buffers, for one lane. Raises SpecError if the graphs cannot follow `policy`."""

    def new_scorer(self) -> TargetScorer:
        """A scorer of given targets, for one lane."""

    def new_attention_reader(self) -> AttentionReader | None:
        """A reader of cross-attention, for one lane; None where the graphs do not tell it, as those of an export."""


def decode_all(
    decoder: Decoder,
    segments: Sequence[Sequence[int]],
    rules: GenerationConfig,
    run: RunContext,
    *,
    batch_size: int | None,
) -> list[list[Hypothesis]]:
    """The hypotheses of every segment, best first, in the order of the segments."""
    by_segment = dict(chain.from_iterable(decoder.decode(segments, rules, run, batch_size=batch_size)))
    return [by_segment[index] for index in range(len(segments))]


def uncached_steps(policy: CachePolicy) -> int:
    """How many steps, counted from the first, run the whole prefix without the cache: none, N or all."""
    match policy.mode:
        case "off":
            return NEVER_CACHED
        case "hybrid":
            return max(1, policy.uncached_steps)
        case _:
            return 0
