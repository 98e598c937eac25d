"""
Log-probabilities of sequences from native causal graphs, for one lane: which tokens go through the model together.

    sequences that share nothing      many per call, sorted by length, without padding
    a sequence too long for one call  in chunks that extend a cache, each token computed once
    many suffixes of one prefix       the prefix once, into the cache; then the suffixes, many per call

The last token of a sequence is only a target: the model never reads it. Only hidden states that predict a scored token
go through the head.

Knows: calls and their order, and how much memory one may take. Does not know: graphs, text.

Shapes: M tokens · D width · P past length · S length of a row · N heads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.causal.native.calls import LIMITS, CallLimits, TimedCalls
from worker.engine.causal.native.graphs import NativeCausalGraphs
from worker.engine.causal.native.packed_rows import PackedRows
from worker.engine.causal.protocol import Group, GroupResults, LogProbs
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext

_MIN_SAVED = 64  # tokens that sharing a prefix has to save, to be worth its calls

_UNSCORED: LogProbs = np.empty(0, np.float32)  # of a sequence of one token, which nothing predicts


@dataclass(frozen=True, slots=True)
class _Sequence:
    """A whole sequence of a group."""

    group: int
    suffix: int  # its index in the group
    ids: Sequence[int]
    first: int  # the first token that is scored

    @property
    def fed(self) -> Sequence[int]:
        """The ids that the body reads: all but the last."""
        return self.ids[:-1]

    def targets(self) -> NDArray[np.int64]:
        return np.asarray(self.ids[self.first :], np.int64)


class PackedReader:
    """Reads many sequences per call, for one lane."""

    def __init__(self, graphs: NativeCausalGraphs, limits: CallLimits = LIMITS) -> None:
        self._graphs = graphs
        self._limits = limits
        self._head = graphs.new_scoring_head()  # opened now: a damaged one raises before the first document
        self._body = graphs.new_body()

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of the cache."""
        return self._body.buffer_stats

    def read(self, groups: Sequence[Group], run: RunContext) -> Iterator[tuple[int, list[LogProbs]]]:
        """As `protocol.Reader.read`; groups that need the most memory come first."""
        calls = TimedCalls(self._body, self._head, self._limits, run)
        shared = [index for index, group in enumerate(groups) if _is_worth_sharing(group)]
        for index in sorted(shared, key=lambda index: -groups[index].longest):
            yield index, self._read_shared(groups[index], calls)
        others = sorted({*range(len(groups))} - {*shared})
        sequences = [sequence for index in others for sequence in _whole_sequences(index, groups[index])]
        results = GroupResults(groups)
        for sequence in sequences:
            if not sequence.fed and (done := results.add(sequence.group, sequence.suffix, _UNSCORED)) is not None:
                yield sequence.group, done
        for pack in _packs([sequence for sequence in sequences if sequence.fed], self._limits):
            for sequence, log_probs in zip(pack, self._read_pack(pack, calls), strict=True):
                if (done := results.add(sequence.group, sequence.suffix, log_probs)) is not None:
                    yield sequence.group, done

    def _read_pack(self, pack: Sequence[_Sequence], calls: TimedCalls) -> list[LogProbs]:
        if len(pack) == 1 and len(pack[0].fed) > self._limits.tokens:
            sequence = pack[0]
            self._body.begin_sequence(len(sequence.fed))
            return [self._read_in_chunks(0, sequence.fed, sequence.targets(), sequence.first - 1, calls)]
        hidden = calls.read_from_start(PackedRows.from_start([sequence.fed for sequence in pack]))
        ends = np.cumsum([len(sequence.fed) for sequence in pack]).tolist()
        scored = np.concatenate(
            [np.arange(end - len(sequence.ids) + sequence.first, end) for sequence, end in zip(pack, ends, strict=True)]
        )
        targets = [sequence.targets() for sequence in pack]
        log_probs = calls.log_probs(hidden[scored], np.concatenate(targets))
        return np.split(log_probs, np.cumsum([len(tokens) for tokens in targets])[:-1])

    def _read_in_chunks(
        self,
        past: int,
        ids: Sequence[int],
        targets: NDArray[np.int64],
        first: int,
        calls: TimedCalls,
        past_state: NDArray[Any] | None = None,
    ) -> LogProbs:
        """Read `ids` after `past` tokens in the cache. Returns the log-probabilities of `targets`.

        `first`: the index among `ids` of the state that predicts targets[0]. With `past_state` (1, D), the state of the
        last token of the past, `past_state` predicts targets[0] and state `first` predicts targets[1].
        """
        log_probs = [calls.log_probs(past_state, targets[:1])] if past_state is not None else []
        num_done = len(log_probs)
        for start in range(0, len(ids), self._limits.tokens):
            chunk = ids[start : start + self._limits.tokens]
            hidden = calls.read_sequence(PackedRows.after_past(past + start, chunk), past + start)
            states = hidden[max(first - start, 0) :]
            if len(states):
                log_probs.append(calls.log_probs(states, targets[num_done : num_done + len(states)]))
                num_done += len(states)
        return np.concatenate(log_probs) if log_probs else _UNSCORED

    def _read_shared(self, group: Group, calls: TimedCalls) -> list[LogProbs]:
        """Read the prefix once, then its suffixes, as many per call as memory allows."""
        past, graphs = len(group.prefix), self._graphs
        max_tokens = self._limits.max_suffix_tokens(past, graphs.num_heads) if graphs.shares_rows else 0
        longest = max(len(suffix) for suffix in group.suffixes) - 1
        self._body.begin_sequence(past + max(longest, max_tokens))
        for start in range(0, past, self._limits.tokens):
            chunk = group.prefix[start : start + self._limits.tokens]
            hidden = calls.read_sequence(PackedRows.after_past(start, chunk), start)
        past_state = hidden[-1:]  # (1, D)
        by_suffix = [_UNSCORED] * len(group.suffixes)
        wanted = [np.asarray(ids[group.num_given(index) :], np.int64) for index, ids in enumerate(group.suffixes)]
        for pack in _suffix_packs(group.suffixes, max_tokens):
            suffixes = [group.suffixes[index] for index in pack]
            targets, given = [wanted[index] for index in pack], [group.num_given(index) for index in pack]
            if len(pack) == 1:
                before = None if given[0] else past_state
                by_suffix[pack[0]] = self._read_in_chunks(
                    past, suffixes[0][:-1], targets[0], max(given[0] - 1, 0), calls, before
                )
                continue
            hidden_of = self._read_together(past, [suffix[:-1] for suffix in suffixes], past_state[:0], calls)
            states = [
                part
                for own, count in zip(hidden_of, given, strict=True)
                for part in ((own[count - 1 :],) if count else (past_state, own))
            ]
            log_probs = calls.log_probs(np.concatenate(states), np.concatenate(targets))
            parts = np.split(log_probs, np.cumsum([len(tokens) for tokens in targets])[:-1])
            for index, part in zip(pack, parts, strict=True):
                by_suffix[index] = part
        return by_suffix

    def _read_together(
        self, past: int, suffixes: Sequence[Sequence[int]], no_states: NDArray[Any], calls: TimedCalls
    ) -> list[NDArray[Any]]:
        """The hidden states of each suffix, read in one row; `no_states` (0, D) if no suffix has a token that is
        fed."""
        ends = np.cumsum([len(suffix) for suffix in suffixes])
        if not ends[-1]:
            return [no_states] * len(suffixes)
        hidden = calls.read_sequence(PackedRows.sharing_past(past, suffixes), past)
        return np.split(hidden, ends[:-1])


class WholeReader:
    """Reads one sequence per call, without a cache: the slow reference of PackedReader."""

    buffer_stats: BufferStats = BufferStats()

    def __init__(self, graphs: NativeCausalGraphs, limits: CallLimits = LIMITS) -> None:
        self._body, self._head = graphs.new_body(), graphs.new_scoring_head()
        self._limits = limits

    def read(self, groups: Sequence[Group], run: RunContext) -> Iterator[tuple[int, list[LogProbs]]]:
        """As `protocol.Reader.read`; groups come in their order."""
        calls = TimedCalls(self._body, self._head, self._limits, run)
        for index, group in enumerate(groups):
            yield index, [self._read(sequence, calls) for sequence in _whole_sequences(index, group)]

    def _read(self, sequence: _Sequence, calls: TimedCalls) -> LogProbs:
        if not sequence.fed:
            return _UNSCORED
        hidden = calls.read_from_start(PackedRows.from_start([sequence.fed]))
        return calls.log_probs(hidden[sequence.first - 1 :], sequence.targets())


def _is_worth_sharing(group: Group) -> bool:
    """Whether to compute the group's prefix once, instead of with each suffix."""
    return len(group.prefix) * (len(group.suffixes) - 1) >= _MIN_SAVED


def _whole_sequences(index: int, group: Group) -> Iterator[_Sequence]:
    """Each suffix of a group after its own copy of the prefix."""
    for suffix, ids in enumerate(group.suffixes):
        first = max(1, len(group.prefix) + group.num_given(suffix))
        yield _Sequence(index, suffix, [*group.prefix, *ids], first)


def _packs(sequences: Sequence[_Sequence], limits: CallLimits) -> Iterator[list[_Sequence]]:
    """Divide sequences into packs of about one length that fit into one call, the longest first."""
    pack: list[_Sequence] = []
    tokens = 0
    for sequence in sorted(sequences, key=lambda unpacked: -len(unpacked.ids)):
        length = len(sequence.fed)
        padded = len(pack[0].fed) * (len(pack) + 1) if pack else 0
        if pack and (tokens + length > limits.tokens or padded > limits.padded):
            yield pack
            pack, tokens = [], 0
        pack.append(sequence)
        tokens += length
    if pack:
        yield pack


def _suffix_packs(suffixes: Sequence[Sequence[int]], max_tokens: int) -> Iterator[list[int]]:
    """Divide suffixes into packs of at most `max_tokens` tokens and yield their indices; a longer suffix is alone."""
    pack: list[int] = []
    tokens = 0
    for index in sorted(range(len(suffixes)), key=lambda index: -len(suffixes[index])):
        length = len(suffixes[index]) - 1
        if pack and (tokens + length > max_tokens or not max_tokens):
            yield pack
            pack, tokens = [], 0
        pack.append(index)
        tokens += length
    if pack:
        yield pack
