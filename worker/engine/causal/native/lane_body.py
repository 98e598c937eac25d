"""
The body of a model as one lane uses it: calls go through its stages one after the other, and every stage carries out
what happens to rows. Which rows there are, and how long each is, is known here alone.

    a sequence   read in several calls, each behind the last; to drop what a call has read, the next gets a smaller past
    slots        rows that continue prompts; running rows are always the first ones

Knows: stages, lengths. Does not know: sessions, which sequences are read together.

Shapes: M tokens · R rows · D width.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from worker.engine.causal.native.packed_rows import PackedRows
from worker.engine.causal.native.stage import StageLane, States
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.logit_rules import Ids

_CAPACITY_STEP = 16  # positions


@dataclass(frozen=True, slots=True)
class BodyCall:
    """The run that a call belongs to, and the fields under which its time is recorded (`RunContext.measure`)."""

    run: RunContext
    phase: str = "prefill"
    step: int = 0
    past: int = 0  # tokens


class LaneBody:
    """The stages of a body, as one lane runs them one after the other."""

    def __init__(self, stages: Sequence[StageLane]) -> None:
        self._stages = stages
        self._capacity = 0  # positions of a slot
        self.lengths = np.zeros(0, np.int32)  # (slots,): cached tokens; valid for the first `num_rows`
        self.num_rows = 0  # R

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of all stages."""
        return sum((stage.buffer_stats for stage in self._stages), BufferStats())

    @property
    def longest(self) -> int:
        """The largest number of tokens that a running row has cached."""
        return int(self.lengths[: self.num_rows].max(initial=0))

    def begin_sequence(self, positions: int) -> None:
        """Begin a sequence of at most `positions`."""
        for stage in self._stages:
            stage.begin_sequence(positions)

    def begin_slots(self, slots: int, positions: int) -> None:
        """Allocate `slots` free slots, with room for `positions` tokens each at first; they grow."""
        self.num_rows, self._capacity = 0, _round_up(positions)
        self.lengths = np.zeros(slots, np.int32)
        for stage in self._stages:
            stage.begin_slots(slots, self._capacity)

    def add_rows(self, rows: int) -> None:
        """Add rows after the others, without tokens."""
        self.lengths[self.num_rows : self.num_rows + rows] = 0
        self.num_rows += rows

    def reserve(self, positions: int) -> None:
        """Make room for `positions` tokens in every slot."""
        if positions > self._capacity:
            self._capacity = max(2 * self._capacity, _round_up(positions))
            for stage in self._stages:
                stage.grow_slots(self._capacity, self.num_rows, self.longest)

    def take(self, rows: Sequence[int], starts: Sequence[int], lengths: Sequence[int]) -> None:
        """Append lengths[i] positions of the sequence, from starts[i] on, to row rows[i]."""
        taken = [
            (start, start + length, row, int(self.lengths[row]))
            for row, start, length in zip(rows, starts, lengths, strict=True)
        ]
        for stage in self._stages:
            stage.take(taken)
        self.lengths[list(rows)] += lengths

    def select(self, rows: Ids) -> None:
        """Row i gets the content of row rows[i]; rows that are not in `rows` are dropped.

        Copies only rows that change; `rows` must be such that no row is overwritten before it is copied.
        """
        changed = np.flatnonzero(rows != np.arange(len(rows))).tolist()
        moves = [(row, int(rows[row]), int(self.lengths[rows[row]])) for row in changed]
        for stage in self._stages if moves else ():
            stage.move(moves)
        self.lengths[: len(rows)] = self.lengths[rows]
        self.num_rows = len(rows)

    def read_from_start(self, rows: PackedRows, call: BodyCall) -> States:
        """Rows of whole sequences -> hidden states (M, D); their keys and values are dropped."""
        return self._run(_counts(rows), call, lambda stage, residual: stage.read_from_start(rows, residual))

    def read_sequence(self, rows: PackedRows, call: BodyCall) -> States:
        """One row behind the tokens of the sequence -> hidden states (M, D); it keeps the row's keys and values."""
        return self._run(_counts(rows), call, lambda stage, residual: stage.read_sequence(rows, residual))

    def read_slots(self, rows: PackedRows, first: int, call: BodyCall) -> States:
        """Append tokens to the rows from `first` on, and to their lengths. Returns the hidden states (M, D)."""
        states = self._run(_counts(rows), call, lambda stage, residual: stage.read_slots(rows, first, residual))
        self.lengths[first : first + len(rows.ends)] = rows.ends + 1
        return states

    def step(self, ids: NDArray[np.int64], call: BodyCall) -> States:
        """One more id in each row (R,) -> its hidden state (R, D), which the next step overwrites."""
        lengths = self.lengths[: self.num_rows]
        self.reserve(self.longest + 1)
        counts = len(ids), len(ids)
        states = self._run(counts, call, lambda stage, residual: stage.step(ids, lengths, residual))
        lengths += 1
        return states

    def _run(
        self, counts: tuple[int, int], call: BodyCall, through: Callable[[StageLane, States | None], States]
    ) -> States:
        """Run a call through every stage, timed as a whole, and in a split model stage by stage too. `counts`: its rows
        and tokens."""
        rows, tokens = counts
        measured = {"step": call.step, "rows": rows, "tokens": tokens, "past_length": call.past}
        with call.run.measure(call.phase, **measured):
            states = None
            for number, stage in enumerate(self._stages):
                timed = call.run.measure(f"stage.{number}", **measured) if len(self._stages) > 1 else nullcontext()
                with timed:
                    states = through(stage, states)
            assert states is not None
            return states


def _counts(rows: PackedRows) -> tuple[int, int]:
    """The rows and the tokens of a call."""
    return len(rows.ends), rows.num_tokens


def _round_up(length: int) -> int:
    """The capacity for `length` positions: a multiple of `_CAPACITY_STEP`."""
    return max(1, -(-length // _CAPACITY_STEP)) * _CAPACITY_STEP
