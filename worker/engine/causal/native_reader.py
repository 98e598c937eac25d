"""
Reading groups of sequences with a causal model of our own: which tokens go through it together.

    sequences that share nothing      many a call, sorted by length, without padding
    a sequence too long for one call  in chunks that extend a cache, each token computed once
    many continuations of one prefix  the prefix once, into the cache; then the continuations, many a call

The last token of a sequence is looked for and never read. Only states before a token that is scored go through the
head.

Knows: calls and their order, and how much memory one may take. Does not know: graphs, text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.causal.group_results import GroupResults
from worker.engine.causal.kv_cache import SequenceCache
from worker.engine.causal.native_graphs import NativeCausalGraphs
from worker.engine.causal.packed_rows import Ids, PackedRows
from worker.engine.causal.protocol import Group, LogProbs
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.graphs.causal import SHARED_ROOM

_LEAST_SAVED = 64  # tokens: what a prefix has to save before it is worth calls of its own

_NOTHING: LogProbs = np.empty(0, np.float32)  # of a token with nothing before it


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call may take."""

    # Of the body. Qwen2.5-0.5B's sizes, one thread, rows of 256: int8 2.6 to 3.0 ms a token and fp32 8.3 to 8.5,
    # whether 256, 512 or 1,024 at once, so what matters is memory.
    tokens: int = 512
    padded: int = 1024  # of the body, as its attention sees them
    head_rows: int = 256  # int8 0.91 ms a row, and 1.02 where there are 64; fp32 2.7 and 3.0
    scores: int = 2**24  # of attention with a bias, which keeps them all: 64 MB


_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class _Sequence:
    """One of a group's, whole."""

    group: int
    place: int  # among the suffixes
    ids: Ids
    first: int  # the first that is scored

    @property
    def read(self) -> Ids:
        """All but the last: what goes through the body."""
        return self.ids[:-1]

    def targets(self) -> NDArray[np.int64]:
        return np.asarray(self.ids[self.first :], np.int64)


class PackedReader:
    """Many sequences a call."""

    def __init__(self, graphs: NativeCausalGraphs, limits: Limits = _LIMITS) -> None:
        self._graphs = graphs
        self._limits = limits
        self._cache = graphs.new_cache()

    @property
    def buffer_stats(self) -> BufferStats:
        """Of the cache."""
        return self._cache.buffer_stats

    def read(self, groups: Sequence[Group], run: RunContext) -> Iterator[tuple[int, list[LogProbs]]]:
        """As `Reader.read` says. What needs the most memory comes first."""
        calls = _Calls(self._graphs, self._limits, run)
        shared = [index for index, group in enumerate(groups) if _is_worth_sharing(group)]
        for index in sorted(shared, key=lambda index: -groups[index].longest):
            yield index, self._read_shared(groups[index], calls)
        alone = sorted({*range(len(groups))} - {*shared})
        sequences = [sequence for index in alone for sequence in _whole(index, groups[index])]
        results = GroupResults(groups)
        for sequence in sequences:
            if not sequence.read and (done := results.add(sequence.group, sequence.place, _NOTHING)) is not None:
                yield sequence.group, done
        for pack in _packs([sequence for sequence in sequences if sequence.read], self._limits):
            for sequence, found in zip(pack, self._read_pack(pack, calls), strict=True):
                if (done := results.add(sequence.group, sequence.place, found)) is not None:
                    yield sequence.group, done

    def _read_pack(self, pack: Sequence[_Sequence], calls: "_Calls") -> list[LogProbs]:
        if len(pack) == 1 and len(pack[0].read) > self._limits.tokens:
            sequence = pack[0]
            self._cache.begin(len(sequence.read))
            return [self._read_long(0, sequence.read, sequence.targets(), sequence.first - 1, calls)]
        hidden = calls.fresh(PackedRows.fresh([sequence.read for sequence in pack]))
        ends = np.cumsum([len(sequence.read) for sequence in pack]).tolist()
        scored = np.concatenate(
            [np.arange(end - len(sequence.ids) + sequence.first, end) for sequence, end in zip(pack, ends, strict=True)]
        )
        targets = [sequence.targets() for sequence in pack]
        found = calls.log_probs(hidden[scored], np.concatenate(targets))
        return np.split(found, np.cumsum([len(each) for each in targets])[:-1])

    def _read_long(
        self, past: int, ids: Ids, targets: NDArray[np.int64], first: int, calls: "_Calls", before: Any = None
    ) -> LogProbs:
        """Read `ids` chunk by chunk behind `past` tokens of the cache. State `first` of them sees targets[0] come;
        `before` is the state of the last token of the past, where that one does."""
        found = [calls.log_probs(before, targets[:1])] if before is not None else []
        done = len(found)
        for start in range(0, len(ids), self._limits.tokens):
            chunk = ids[start : start + self._limits.tokens]
            hidden = calls.behind(self._cache, PackedRows.behind(past + start, chunk), past + start)
            states = hidden[max(first - start, 0) :]
            if len(states):
                found.append(calls.log_probs(states, targets[done : done + len(states)]))
                done += len(states)
        return np.concatenate(found) if found else _NOTHING

    def _read_shared(self, group: Group, calls: "_Calls") -> list[LogProbs]:
        """The prefix once, then its suffixes, as many a call as memory allows."""
        past, graphs = len(group.prefix), self._graphs
        room = _room(past, graphs.num_heads, self._limits) if graphs.shares_rows else 0
        longest = max(len(suffix) for suffix in group.suffixes) - 1
        self._cache.begin(past + max(longest, room))
        for start in range(0, past, self._limits.tokens):
            chunk = group.prefix[start : start + self._limits.tokens]
            state = calls.behind(self._cache, PackedRows.behind(start, chunk), start)[-1:]  # (1, D): of the last token
        found = [_NOTHING] * len(group.suffixes)
        for pack in _suffix_packs(group.suffixes, room):
            suffixes = [group.suffixes[place] for place in pack]
            targets = [np.asarray(suffix, np.int64) for suffix in suffixes]
            if len(pack) == 1:
                found[pack[0]] = self._read_long(past, suffixes[0][:-1], targets[0], 0, calls, state)
                continue
            hidden = self._read_together(past, [suffix[:-1] for suffix in suffixes], state[:0], calls)
            states = [part for own in hidden for part in (state, own)]
            log_probs = calls.log_probs(np.concatenate(states), np.concatenate(targets))
            parts = np.split(log_probs, np.cumsum([len(each) for each in targets])[:-1])
            for place, part in zip(pack, parts, strict=True):
                found[place] = part
        return found

    def _read_together(
        self, past: int, suffixes: Sequence[Ids], nothing: NDArray[Any], calls: "_Calls"
    ) -> list[NDArray[Any]]:
        """Hidden states of each suffix; `nothing` where none has a token."""
        ends = np.cumsum([len(suffix) for suffix in suffixes])
        if not ends[-1]:
            return [nothing] * len(suffixes)
        hidden = calls.behind(self._cache, PackedRows.shared(past, suffixes), past)
        return np.split(hidden, ends[:-1])


class PlainReader:
    """Sequence by sequence, without a cache: slow, and an oracle for the other."""

    buffer_stats: BufferStats = BufferStats()  # it has none

    def __init__(self, graphs: NativeCausalGraphs, limits: Limits = _LIMITS) -> None:
        self._graphs = graphs
        self._limits = limits

    def read(self, groups: Sequence[Group], run: RunContext) -> Iterator[tuple[int, list[LogProbs]]]:
        """As `Reader.read` says, in the order of the groups."""
        calls = _Calls(self._graphs, self._limits, run)
        for index, group in enumerate(groups):
            yield index, [self._read(sequence, calls) for sequence in _whole(index, group)]

    def _read(self, sequence: _Sequence, calls: "_Calls") -> LogProbs:
        if not sequence.read:
            return _NOTHING
        hidden = calls.fresh(PackedRows.fresh([sequence.read]))
        return calls.log_probs(hidden[sequence.first - 1 :], sequence.targets())


class _Calls:
    """Calls of the model, timed, with a look between them at whether to stop."""

    def __init__(self, graphs: NativeCausalGraphs, limits: Limits, run: RunContext) -> None:
        self._graphs = graphs
        self._limits = limits
        self._run = run

    def fresh(self, rows: PackedRows) -> NDArray[Any]:
        self._look()
        with self._run.measure("prefill", rows=len(rows.ends), tokens=rows.num_tokens):
            return self._graphs.read_fresh(rows)

    def behind(self, cache: SequenceCache, rows: PackedRows, past: int) -> NDArray[Any]:
        self._look()
        with self._run.measure("prefill", rows=1, tokens=rows.num_tokens, past_length=past):
            return self._graphs.read_behind(cache, rows)

    def log_probs(self, hidden: NDArray[Any], targets: NDArray[np.int64]) -> LogProbs:
        """In calls of about as many rows each."""
        count = -(-len(targets) // self._limits.head_rows)
        parts = []
        for states, ids in zip(np.array_split(hidden, count), np.array_split(targets, count), strict=True):
            self._look()
            with self._run.measure("head", rows=len(ids), tokens=len(ids)):
                parts.append(self._graphs.log_probs(states, ids))
        return np.concatenate(parts)

    def _look(self) -> None:
        self._run.raise_if_stopped("calls of the model")


def _is_worth_sharing(group: Group) -> bool:
    return len(group.prefix) * (len(group.suffixes) - 1) >= _LEAST_SAVED


def _whole(index: int, group: Group) -> Iterator[_Sequence]:
    """Each suffix behind a prefix of its own."""
    first = max(1, len(group.prefix))
    for place, suffix in enumerate(group.suffixes):
        yield _Sequence(index, place, [*group.prefix, *suffix], first)


def _packs(sequences: Sequence[_Sequence], limits: Limits) -> Iterator[list[_Sequence]]:
    """What is read together: sequences about equally long, the longest first."""
    pack: list[_Sequence] = []
    tokens = 0
    for sequence in sorted(sequences, key=lambda each: -len(each.ids)):
        length = len(sequence.read)
        padded = len(pack[0].read) * (len(pack) + 1) if pack else 0
        if pack and (tokens + length > limits.tokens or padded > limits.padded):
            yield pack
            pack, tokens = [], 0
        pack.append(sequence)
        tokens += length
    if pack:
        yield pack


def _suffix_packs(suffixes: Sequence[Ids], room: int) -> Iterator[list[int]]:
    """Places of suffixes whose tokens fit into `room`; one that is longer comes alone."""
    pack: list[int] = []
    tokens = 0
    for place in sorted(range(len(suffixes)), key=lambda place: -len(suffixes[place])):
        length = len(suffixes[place]) - 1
        if pack and (tokens + length > room or not room):
            yield pack
            pack, tokens = [], 0
        pack.append(place)
        tokens += length
    if pack:
        yield pack


def _room(past: int, num_heads: int, limits: Limits) -> int:
    """How many tokens may stand behind `past` in one row: S with N x S x (P + S) scores within bounds."""
    scores = limits.scores / num_heads
    most = (past**2 / 4 + scores) ** 0.5 - past / 2
    return max(1, min(SHARED_ROOM, limits.tokens, int(most)))
