"""
Continuing prompts with continuous batching: a row takes the next prompt as soon as its own has ended.

    group by prefix, longest first -> read prompts into free rows -> one step of all rows
                                   -> which have ended? -> read the next prompts into their rows, and so on

Equal prompts are continued once. Knows: one model, one lane. Does not know: text, graphs.

Shapes: R rows · V vocabulary.
"""

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from worker.engine.causal.prefix_sharing import group_by_prefix, group_separately
from worker.engine.causal.protocol import Generated
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.out_of_memory import halve_on_out_of_memory
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation import Continuation, ContinuationSearch, EndsIn
from worker.engine.search.continuation_rules import ContinuationRules, OwnRules
from worker.engine.search.logit_rules import Floats, Ids

# An eighth of the rows has to be free before they are filled again, so that prompts are read together.
REFILLED_SHARE = 8
# Positions that a row has at first beyond its prompt; rows that need more make all grow.
_FIRST_NEW_TOKENS = 64


class Rows(Protocol):
    """One lane's rows with their keys and values, in which prompts are continued. Running rows come first."""

    @property
    def buffer_stats(self) -> BufferStats: ...
    @property
    def shares_prefixes(self) -> bool:
        """Whether a prefix can be read once for several prompts."""

    @property
    def equal_lengths(self) -> bool:
        """Whether all rows have to hold prompts of one length that begin at the same step."""

    def allocate(self, rows: int, positions: int, max_positions: int) -> int:
        """Make room for `rows` rows of `positions` tokens at first, and `max_positions` at most. Returns for how many
        rows there is memory, at least one. Afterwards every row is free."""

    def read_in(self, prefix: Sequence[int], prompts: Sequence[Sequence[int]], run: RunContext) -> None:
        """Add a row for each prompt, longest first, after the running rows, and read all tokens of it but the last. All
        prompts begin with `prefix`, which may be empty and is never a whole prompt. Raises Stopped between two
        calls."""

    def step(self, last_ids: Ids, run: RunContext, number: int) -> tuple[Floats, Floats | None]:
        """Read one more id (R,) in each row. Returns the logits of the next id (R, V), and for each row the factor (R,)
        that turns them into logits of the model, None for 1. The caller may change both until the next step."""

    def select(self, rows: Ids) -> None:
        """Row i gets the content of row rows[i]; rows that are not in `rows` are dropped."""


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A prompt, and the documents that ask for it to be continued."""

    ids: tuple[int, ...]
    prefix: tuple[int, ...]  # the beginning shared with other prompts, read once for all; mostly empty
    order: tuple[int, ...]  # sort key: prompts with smaller ones are read first
    documents: list[tuple[int, int]]  # the index of each, and how many of its tokens another one has read
    own_rules: OwnRules | None = None

    def continued(self, continuation: Continuation) -> Generated:
        """The continuation with the index of each document that has this prompt."""
        return [(index, dataclasses.replace(continuation, num_shared=shared)) for index, shared in self.documents]


class ContinuousGenerator:
    """Continues prompts in one lane's rows for one model (`protocol.Generator`)."""

    def __init__(self, new_rows: Callable[[], Rows], max_positions: int) -> None:
        self._new_rows = new_rows
        self._rows = new_rows()
        self._dropped = BufferStats()  # of rows that did not fit into memory
        self._max_positions = max_positions
        self._max_rows = 0  # the most rows that fitted into memory so far; 0: not known yet

    @property
    def buffer_stats(self) -> BufferStats:
        return self._dropped + self._rows.buffer_stats

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        rules: ContinuationRules,
        run: RunContext,
        *,
        batch_size: int,
        shares_prefixes: bool = True,
        ends_in: EndsIn | None = None,
        own_rules: Sequence[OwnRules] = (),
    ) -> Iterator[Generated]:
        """As `protocol.Generator.generate`; prompts come in the order in which they end."""
        distinct = _distinct(prompts, own_rules, shares_prefixes=shares_prefixes and self._rows.shares_prefixes)
        limit = max((own.max_new_tokens for own in own_rules), default=rules.max_new_tokens)

        def document_ends(number: int, ids: Ids) -> bool:
            return ends_in is not None and ends_in(distinct[number].documents[0][0], ids)

        waiting = deque(sorted(range(len(distinct)), key=lambda number: distinct[number].order))
        while waiting:
            num_rows = min(len(waiting), batch_size, self._max_rows or batch_size)
            search = ContinuationSearch(
                rules, self._max_positions, ends_in and document_ends, lambda number: distinct[number].own_rules
            )
            batch = _PromptBatch(self._rows, search, distinct, waiting, num_rows, run)
            with halve_on_out_of_memory(num_rows, "prompts") as attempt:
                longest = max(len(distinct[number].ids) for number in waiting)
                room = self._max_positions + 1 - longest
                batch.make_room(longest, room if limit is None else min(limit, room))
                for ended in batch.steps():
                    yield [
                        pair
                        for number, continuation in ended.items()
                        for pair in distinct[number].continued(continuation)
                    ]
            if not attempt.fits:  # running prompts begin again
                self._max_rows = attempt.half
                waiting.extendleft(sorted(batch.running, key=lambda number: distinct[number].order, reverse=True))
                self._dropped += self._rows.buffer_stats.freed()
                self._rows = self._new_rows()


class _PromptBatch:
    """Prompts that run in the rows of a lane until none is left."""

    def __init__(
        self,
        rows: Rows,
        search: ContinuationSearch,
        prompts: Sequence[_Prompt],
        waiting: deque[int],
        num_rows: int,
        run: RunContext,
    ) -> None:
        self.running: set[int] = set()
        self._rows = rows
        self._search = search
        self._prompts = prompts
        self._waiting = waiting
        self._num_rows = num_rows
        self._run = run

    def make_room(self, longest: int, max_new_tokens: int) -> None:
        """Make room for prompts of at most `longest` tokens."""
        first = longest + min(max_new_tokens, _FIRST_NEW_TOKENS)
        self._num_rows = self._rows.allocate(self._num_rows, first, longest + max_new_tokens)

    def steps(self) -> Iterator[dict[int, Continuation]]:
        """Yield the continuations of the prompts that ended, after each step in which some did."""
        rows, search, waiting = self._rows, self._search, self._waiting
        number = 0
        while waiting or search.num_rows:
            num_free = self._num_rows - search.num_rows
            if rows.equal_lengths and search.num_rows:
                num_free = 0
            if waiting and num_free * REFILLED_SHARE >= self._num_rows:
                self._fill_rows(num_free)
            self._run.raise_if_stopped("steps")
            logits, scales = rows.step(search.last_ids, self._run, number)
            number += 1
            ended, order = search.advance(logits, scales)
            if order is not None:
                rows.select(order)
            if ended:
                self.running -= ended.keys()
                yield ended

    def _fill_rows(self, num_free: int) -> None:
        """Read waiting prompts into the free rows, those with the same prefix together."""
        while num_free and self._waiting:
            first = self._prompts[self._waiting[0]]
            together: list[int] = []
            while self._waiting and len(together) < num_free and self._goes_with(first, self._waiting[0]):
                together.append(self._waiting.popleft())
            self.running.update(together)
            prompts = [self._prompts[number].ids for number in together]
            self._rows.read_in(first.prefix, prompts, self._run)
            self._search.add(together, prompts)
            num_free = 0 if self._rows.equal_lengths else num_free - len(together)

    def _goes_with(self, first: _Prompt, number: int) -> bool:
        """Whether prompt `number` can be read in one call with `first`."""
        prompt = self._prompts[number]
        is_length_right = len(prompt.ids) == len(first.ids) or not self._rows.equal_lengths
        return prompt.prefix == first.prefix and is_length_right


def _distinct(
    prompts: Sequence[Sequence[int]], own_rules: Sequence[OwnRules], *, shares_prefixes: bool
) -> list[_Prompt]:
    """Each prompt once, unless it has other rules of its own; with `shares_prefixes`, divided into the prefix that it
    shares with others and the rest."""
    pairs = [(tuple(ids[:-1]), (ids[-1],)) for ids in prompts]
    grouped = group_by_prefix(pairs) if shares_prefixes else group_separately(pairs)
    distinct: dict[tuple[int, int, OwnRules | None], _Prompt] = {}
    for index, member in enumerate(grouped.members):
        group = grouped.groups[member.group]
        prefix = tuple(group.prefix) if len(group.suffixes) > 1 else ()
        own = own_rules[index] if own_rules else None
        prompt = distinct.get((member.group, member.suffix, own))
        if prompt is None:
            ids = tuple(prompts[index])
            # Prompts that share a prefix come one after the other, and of these the longest first.
            order = (0, member.group, -len(ids), index) if prefix else (1, 0, -len(ids), index)
            prompt = distinct[member.group, member.suffix, own] = _Prompt(ids, prefix, order, [], own)
        prompt.documents.append((index, min(member.num_shared, len(prompt.ids) - 1)))
    return list(distinct.values())
