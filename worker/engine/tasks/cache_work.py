"""Work that is done with the KV cache and without it: segments to translate, prompts to continue. All sequences of a
batch begin together and are forced to the same length, so that both ways take the same steps."""

import dataclasses
from collections.abc import Sequence

from jobs.errors import SpecError
from jobs.outcome import DECODER_PHASES, StepTiming
from jobs.tasks.shared_options import CachePolicy
from worker.engine.causal.protocol import CausalModel
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation_rules import ContinuationRules
from worker.engine.seq2seq.protocol import Seq2SeqModel, decode_all

MODES = ("on", "off")


class TranslationWork:
    """Segments of one translation model, as ids with end-of-sentence."""

    def __init__(
        self, model: Seq2SeqModel, segments: Sequence[Sequence[int]], *, num_beams: int = 1, batch_size: int = 32
    ) -> None:
        """Raises SpecError if the model has no cache."""
        model.check_cache(CachePolicy("on"))
        self._model = model
        self._segments = segments
        self._num_beams = num_beams
        self._batch_size = batch_size
        self._decoders = {mode: model.new_decoder(CachePolicy(mode)) for mode in MODES}

    @property
    def num_sequences(self) -> int:
        """Segments."""
        return len(self._segments)

    def check(self, num_tokens: int) -> None:
        longest, positions = max(map(len, self._segments), default=0), self._model.max_positions
        if not 2 <= num_tokens <= positions or not 1 <= longest <= positions:
            raise SpecError(
                f"sources of {longest} tokens and {num_tokens} target tokens were asked for; the model has "
                f"{positions} positions, and a target needs at least 2 tokens"
            )

    def run(self, mode: str, num_tokens: int, context: RunContext) -> list[tuple[int, ...]]:
        """Forbids end-of-sentence before that length."""
        rules = dataclasses.replace(
            self._model.generation, num_beams=self._num_beams, max_new_tokens=num_tokens, min_new_tokens=num_tokens
        )
        found = decode_all(self._decoders[mode], self._segments, rules, context, batch_size=self._batch_size)
        return [best.ids for best, *_ in found]

    def buffer_stats(self, mode: str) -> BufferStats:
        return self._decoders[mode].buffer_stats

    def step_of(self, timing: StepTiming) -> int | None:
        """The position, in the target, of the last token that a step reads: it is the same for all rows. The first step
        reads the start token."""
        if timing.phase not in DECODER_PHASES:
            return None
        return timing.past_length + timing.tokens // timing.rows - 1

    def batches_in(self, timings: Sequence[StepTiming]) -> int:
        """As many as there are calls: a call takes a step of one batch."""
        return len(timings)


class ContinuationWork:
    """Prompts of one length for one causal model, one batch of them."""

    def __init__(self, model: CausalModel, prompts: Sequence[Sequence[int]]) -> None:
        """Raises SpecError if the model has no cache."""
        self._model = model
        self._prompts = prompts
        self._generators = {mode: model.new_generator(CachePolicy(mode)) for mode in MODES}

    @property
    def num_sequences(self) -> int:
        """Prompts."""
        return len(self._prompts)

    def check(self, num_tokens: int) -> None:
        longest, positions = max(map(len, self._prompts), default=0), self._model.max_positions
        if num_tokens < 2 or longest < 1 or longest + num_tokens > positions + 1:
            raise SpecError(
                f"prompts of {longest} tokens and {num_tokens} new ones were asked for; the model has {positions} "
                "positions, and at least 2 new tokens are needed"
            )

    def run(self, mode: str, num_tokens: int, context: RunContext) -> list[tuple[int, ...]]:
        """Lets no id end a continuation."""
        rules = ContinuationRules(max_new_tokens=num_tokens)
        found: dict[int, tuple[int, ...]] = {}
        generator = self._generators[mode]
        for ended in generator.generate(self._prompts, rules, context, batch_size=len(self._prompts)):
            found |= {index: continuation.ids for index, continuation in ended}
        return [found[index] for index in range(len(self._prompts))]

    def buffer_stats(self, mode: str) -> BufferStats:
        return self._generators[mode].buffer_stats

    def step_of(self, timing: StepTiming) -> int | None:
        """None for reading prompts, which is no step."""
        return timing.step if timing.phase in ("decode", "head") else None

    def batches_in(self, timings: Sequence[StepTiming]) -> int:
        """One: all prompts are one batch, and a step may need several calls."""
        return 1
