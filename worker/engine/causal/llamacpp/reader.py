"""
Log-probabilities of sequences from llama.cpp, for one lane: which tokens go through the network together.

    sequences that share nothing     many per call, without padding
    a sequence too long for a call   in chunks, each token computed once
    many suffixes of one prefix      the prefix once, then the suffixes, many per call, each a sequence that begins with
                                     the cells of the prefix

The last token of a sequence is only a target: the network never reads it. Logits are asked for only where the token
that follows is scored.

Knows: calls, their order, and how much memory one may take. Does not know: text, files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from worker.engine.causal.llamacpp.context import LEAST_TOKENS, ContextLimits, ContextSize, LlamaContext, TokenSpan
from worker.engine.causal.llamacpp.network import Network
from worker.engine.causal.protocol import Group, GroupResults, LogProbs
from worker.engine.causal.target_log_probs import first_log_probs, scratch_size, target_log_probs
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.out_of_memory import halve_on_out_of_memory
from worker.engine.runtime.run_context import RunContext

_MIN_SAVED = 64  # tokens that sharing a prefix has to save, to be worth its call
_UNSCORED: LogProbs = np.empty(0, np.float32)  # of a sequence of one token, which nothing predicts


@dataclass(frozen=True, slots=True)
class _Tail:
    """The tokens of a sequence that are not in the context yet: a suffix after its prefix, or the whole sequence."""

    group: int
    suffix: int  # its index in the group
    prefix: int  # the sequence of the context that it continues, where `start` is above 0
    start: int  # the position of its first token
    fed: Sequence[int]  # the ids that the network reads
    first_row: int  # the first of `fed` that predicts a scored token
    targets: Sequence[int]  # the tokens that `fed` predicts from there on


class LlamaCppReader:
    """Reads sequences, for one lane."""

    def __init__(
        self, network: Network, *, threads: int, limits: ContextLimits, bytes_per_cell: int, is_whole: bool = False
    ) -> None:
        """`bytes_per_cell`: of keys and values. `is_whole`: each sequence in one call, whatever `limits.tokens` is."""
        self._network = network
        self._threads = threads
        self._limits = limits
        self._tokens = limits.tokens  # of a call; fewer after a shortage of memory
        self._bytes_per_cell = bytes_per_cell
        self._is_whole = is_whole
        self._context: LlamaContext | None = None  # made for the first sequences
        self._scratch = np.empty(scratch_size(network.vocab_size), np.float32)
        self.buffer_stats = BufferStats()

    def read(self, groups: Sequence[Group], run: RunContext) -> Iterator[tuple[int, list[LogProbs]]]:
        """As `protocol.Reader.read`; groups whose prefix is shared come first."""
        left = dict(enumerate(groups))
        while left:
            with halve_on_out_of_memory(self._tokens, "tokens of a call", least=LEAST_TOKENS) as attempt:
                for index, log_probs in self._read(dict(left), groups, run):
                    del left[index]
                    yield index, log_probs
            if not attempt.fits:
                self._context = None
                self.buffer_stats = self.buffer_stats.freed()
                self._tokens = attempt.half

    def _read(
        self, left: Mapping[int, Group], groups: Sequence[Group], run: RunContext
    ) -> Iterator[tuple[int, list[LogProbs]]]:
        results = GroupResults(groups)
        shared = [index for index, group in left.items() if self._limits.is_packed and _is_worth_sharing(group)]
        most = self._limits.sequences(self._tokens) // 2
        for wave in _waves({index: left[index] for index in shared}, self._tokens, most):
            yield from self._read_shared(wave, groups, results, run)
        tails = [tail for index in left.keys() - {*shared} for tail in _whole_sequences(index, left[index])]
        for tail in tails:
            if not tail.fed and (done := results.add(tail.group, tail.suffix, _UNSCORED)) is not None:
                yield tail.group, done
        tails = sorted((tail for tail in tails if tail.fed), key=lambda tail: (-len(tail.fed), tail.group, tail.suffix))
        for pack in self._packs(tails, num_prefixes=0):
            context = self._context_for(sum(len(tail.fed) for tail in pack))
            context.clear()
            for tail, log_probs in zip(pack, self._read_tails(context, pack, 0, run), strict=True):
                if (done := results.add(tail.group, tail.suffix, log_probs)) is not None:
                    yield tail.group, done

    def _read_shared(
        self, wave: Sequence[int], groups: Sequence[Group], results: GroupResults, run: RunContext
    ) -> Iterator[tuple[int, list[LogProbs]]]:
        """Read the prefixes of the groups in `wave`, then all suffixes of these groups after their prefixes."""
        prefixes = [groups[index].prefix for index in wave]
        tails = [
            _behind(groups[index], index, suffix_index, sequence)
            for sequence, index in enumerate(wave)
            for suffix_index in range(len(groups[index].suffixes))
        ]
        longest = max(len(tail.fed) for tail in tails)
        context = self._context_for(sum(map(len, prefixes)) + max(longest, self._tokens))
        context.clear()
        first: dict[tuple[int, int], LogProbs] = {}  # of the first token of each suffix, which the prefix predicts
        for index, logits in zip(wave, self._read_prefixes(context, prefixes, run), strict=True):
            targets = np.array([suffix[0] for suffix in groups[index].suffixes])
            with run.measure("head", rows=1, tokens=len(targets)):
                log_probs = first_log_probs(logits, targets)
            first |= {(index, number): log_probs[number : number + 1] for number in range(len(targets))}
        for tail in tails:
            if not tail.fed:
                done = results.add(tail.group, tail.suffix, first[tail.group, tail.suffix])
                if done is not None:
                    yield tail.group, done
        for pack in self._packs([tail for tail in tails if tail.fed], num_prefixes=len(wave)):
            for number, tail in enumerate(pack):
                context.share(tail.prefix, range(len(wave) + number, len(wave) + number + 1))
            for tail, rest in zip(pack, self._read_tails(context, pack, len(wave), run), strict=True):
                is_given = groups[tail.group].num_given(tail.suffix) > 0
                log_probs = rest if is_given else np.concatenate((first[tail.group, tail.suffix], rest))
                if (done := results.add(tail.group, tail.suffix, log_probs)) is not None:
                    yield tail.group, done
            context.forget(range(len(wave), len(wave) + len(pack)))

    def _read_prefixes(
        self, context: LlamaContext, prefixes: Sequence[Sequence[int]], run: RunContext
    ) -> list[NDArray[np.float32]]:
        """Read prefix i into sequence i of the context. Returns the logits (V,) after the last token of each."""
        pieces = [TokenSpan(number, 0, ids, len(ids) - 1) for number, ids in enumerate(prefixes)]
        if len(pieces) > 1:  # together they fit into a call
            self._call(context, pieces, run)
            return list(context.logits().copy())
        for chunk in _chunks(pieces[0], self._tokens):
            self._call(context, [chunk], run)
        return [context.logits()[-1].copy()]

    def _read_tails(
        self, context: LlamaContext, pack: Sequence[_Tail], first_sequence: int, run: RunContext
    ) -> list[LogProbs]:
        """The log-probabilities of the targets of each tail. Several tails fit into one call; a single one is cut."""
        pieces = [
            TokenSpan(first_sequence + number, tail.start, tail.fed, tail.first_row) for number, tail in enumerate(pack)
        ]
        targets = np.concatenate([np.asarray(tail.targets, np.int64) for tail in pack])
        calls = [pieces] if len(pieces) > 1 else [[chunk] for chunk in _chunks(pieces[0], context.size.tokens)]
        log_probs, num_done = [], 0
        for call in calls:
            self._call(context, call, run)
            logits = context.logits()
            with run.measure("head", rows=len(logits), tokens=len(logits)):
                log_probs.append(target_log_probs(logits, targets[num_done : num_done + len(logits)], self._scratch))
            num_done += len(logits)
        return np.split(np.concatenate(log_probs), np.cumsum([len(tail.targets) for tail in pack])[:-1])

    def _call(self, context: LlamaContext, pieces: Sequence[TokenSpan], run: RunContext) -> None:
        run.raise_if_stopped("calls of the model")
        tokens = sum(len(piece.ids) for piece in pieces)
        with run.measure("prefill", rows=len(pieces), tokens=tokens, past_length=max(piece.start for piece in pieces)):
            context.read(pieces)

    def _packs(self, tails: Sequence[_Tail], *, num_prefixes: int) -> Iterator[list[_Tail]]:
        """Divide the tails into packs that fit into one call; a tail that is too long for a call is alone."""
        pack: list[_Tail] = []
        tokens = 0
        most = self._limits.sequences(self._tokens) - num_prefixes
        for tail in tails:
            if pack and (tokens + len(tail.fed) > self._tokens or len(pack) == most):
                yield pack
                pack, tokens = [], 0
            pack.append(tail)
            tokens += len(tail.fed)
        if pack:
            yield pack

    def _context_for(self, num_cells: int) -> LlamaContext:
        """A context for `num_cells` tokens: the present one if it is large enough and computes as many tokens at once
        as a new one would, so that results have the same bits."""
        tokens = max(self._tokens, num_cells) if self._is_whole else self._tokens
        wanted = self._size(num_cells, tokens)
        if self._context is not None:
            size = self._context.size
            if size.cells >= wanted.cells and size.computed == wanted.computed and size.tokens >= wanted.tokens:
                self.buffer_stats = self.buffer_stats + BufferStats(reuses=1)
                return self._context
            self._context = None  # before the new one is made, so that both need not fit
            self.buffer_stats = self.buffer_stats.freed()
        self._context = LlamaContext(self._network, wanted, self._threads)
        num_bytes = wanted.cells * self._bytes_per_cell + wanted.tokens * self._network.vocab_size * 4
        self.buffer_stats = self.buffer_stats + BufferStats(num_bytes, allocations=1)
        return self._context

    def _size(self, num_cells: int, tokens: int) -> ContextSize:
        """The size of a context, rounded up to powers of two so that it is seldom replaced."""
        wanted = max(num_cells, 2 * self._tokens)
        return self._limits.context_size(self._network, wanted, tokens, self._limits.sequences(tokens))


def _is_worth_sharing(group: Group) -> bool:
    """Whether to compute the group's prefix once, instead of with each suffix."""
    return len(group.prefix) * (len(group.suffixes) - 1) >= _MIN_SAVED


def _waves(groups: Mapping[int, Group], max_tokens: int, max_groups: int) -> Iterator[list[int]]:
    """Divide groups into waves whose prefixes fit into one call; a group with a longer prefix is alone."""
    wave: list[int] = []
    tokens = 0
    for index in sorted(groups, key=lambda index: (-groups[index].longest, index)):
        length = len(groups[index].prefix)
        if wave and (tokens + length > max_tokens or len(wave) == max_groups):
            yield wave
            wave, tokens = [], 0
        wave.append(index)
        tokens += length
    if wave:
        yield wave


def _whole_sequences(index: int, group: Group) -> Iterator[_Tail]:
    """Each suffix of a group after its own copy of the prefix."""
    for suffix_index, suffix in enumerate(group.suffixes):
        ids = [*group.prefix, *suffix]
        first = max(1, len(group.prefix) + group.num_given(suffix_index))  # the first token that is scored
        yield _Tail(index, suffix_index, 0, 0, ids[:-1], first - 1, ids[first:])


def _behind(group: Group, index: int, suffix_index: int, sequence: int) -> _Tail:
    """A suffix of a group whose prefix is in sequence `sequence` of the context and predicts the first token."""
    suffix, first = group.suffixes[suffix_index], max(1, group.num_given(suffix_index))
    return _Tail(index, suffix_index, sequence, len(group.prefix), suffix[:-1], first - 1, suffix[first:])


def _chunks(piece: TokenSpan, max_tokens: int) -> Iterator[TokenSpan]:
    """The piece in parts that fit into a call."""
    for start in range(0, len(piece.ids), max_tokens):
        ids = piece.ids[start : start + max_tokens]
        yield TokenSpan(piece.sequence, piece.start + start, ids, min(len(ids), max(0, piece.first_row - start)))
