"""
Scoring documents with a causal model: how likely it finds each token after those before it.

    texts    tokenize -> ids, byte offsets
             cut      -> windows, each of which the reader gets as a group; each position is scored in one
             read     -> log-probabilities, in float32 as the model gives them
             sum      -> outcomes, in float64, in the order of the texts

    log p(token t) = x[t-1, id_t] - logsumexp(x[t-1]), natural logarithm, where x (P, V) are the logits of a sequence

Shapes: P positions of a sequence · V vocabulary.

Knows: one model, one lane. Does not know: graphs, packing, jobs, tables.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from jobs.answers import Answers
from jobs.errors import ModelError, SpecError
from jobs.outcome import Failed, Flag, Outcome, Score, TokenScore
from jobs.tasks.score import Bos, ScoreOptions, Window
from worker.engine.causal.protocol import CausalModel, Group, LogProbs, Reader
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext, memory_key
from worker.engine.tasks.document_assembly import merge_flags
from worker.engine.tasks.tokenizers import TextTokenizer, check_vocabulary, sequence_limit
from worker.text.causal_tokenizer import Encoded


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """Positions [start, stop) of a sequence are read together; those from `first_scored` on are scored.

    A sequence is the BOS, if there is one, and the ids of a document. Its first position has no context and is never
    scored.
    """

    start: int
    first_scored: int  # > start: a scored position has context
    stop: int


@dataclass(frozen=True, slots=True)
class _Rules:
    """The options, completed with the defaults of the model and the tokenizer."""

    bos_id: int | None  # the id put before each document; None: none is
    max_length: int
    stride: int


@dataclass(frozen=True, slots=True)
class _Document:
    """A text as tokens, its windows and its log-probabilities. Positions count the BOS, if there is one."""

    content: bytes  # UTF-8
    encoded: Encoded
    num_before: int  # positions before the first token: 1 with a BOS, else 0
    sequence: list[int]  # P ids
    windows: list[TokenWindow]  # positions from 1 to the last window's stop are scored
    log_probs: LogProbs  # (P,); NaN where not scored

    @property
    def stop(self) -> int:
        """The scored positions are [1, stop)."""
        return self.windows[-1].stop if self.windows else 1


class Scorer:
    """One lane's engine for one model: the model is shared, the buffers are not."""

    def __init__(self, model: CausalModel, tokenizer: TextTokenizer) -> None:
        """Raises ModelError if the tokenizer does not belong to the model."""
        check_vocabulary(tokenizer, model)
        self.model = model
        self.reader: Reader = model.new_reader()
        self._is_packed = True  # of `reader`: a lane has one reader at a time, so only one set of buffers
        self._tokenizer = tokenizer

    @property
    def buffer_stats(self) -> BufferStats:
        return self.reader.buffer_stats

    def score(self, texts: Sequence[str], options: ScoreOptions, run: RunContext) -> Answers:
        """Score every text. Raises SpecError if the model cannot do what the options ask, Stopped if the run is to end.

        Every token is scored except a first token with no BOS before it, and tokens that the window kind `truncate`
        cuts off; flags tell of both. A document for which the model gives NaN or infinity is `Failed`. No text affects
        the outcome of another.
        """
        rules = self._check(options)
        if options.packing is not self._is_packed:
            self.reader = self.model.new_reader(is_packed=options.packing)
            self._is_packed = options.packing
        with run.measure("tokenize", rows=len(texts)) as counted:
            documents = [self._encode(text, rules, options) for text in texts]
            known = [document for document in documents if isinstance(document, _Document)]
            counted.tokens = sum(len(document.encoded.ids) for document in known)
        windows = [(document, window) for document in known for window in document.windows]
        groups = [_group(document.sequence, window) for document, window in windows]
        if groups:
            for index, (log_probs,) in self.reader.read(groups, run):
                document, window = windows[index]
                document.log_probs[window.first_scored : window.stop] = log_probs
        return Answers(
            outcomes=[self._assemble(document, options) for document in documents],
            timings=run.timings,
        )

    def _check(self, options: ScoreOptions) -> _Rules:
        """The completed options. Raises SpecError before any work is done."""
        if options.pairs:
            raise SpecError(
                "pairs are scored by a translation model, as log p(target | source), and this is a language model: "
                "choose another model with --model"
            )
        max_length = sequence_limit(self.model, options.max_length)
        stride = max(1, max_length // 2) if options.stride is None else options.stride
        if stride >= max_length:
            raise SpecError(
                f"stride is {stride} and a window of this model has {max_length} tokens; a window keeps at least one "
                "token of context: lower --stride"
            )
        return _Rules(self._bos_id(options.bos), max_length, stride)

    def _bos_id(self, bos: Bos) -> int | None:
        """The id that is put before each document."""
        match bos:
            case Bos.AUTO:
                return self._tokenizer.bos_id
            case Bos.NONE:
                return None
        token_id = self._tokenizer.bos_id if bos is Bos.BOS else self._tokenizer.eos_id
        if token_id is None:
            raise SpecError(
                f"bos is {bos}, but the model's tokenizer has no {bos.upper()} token: choose auto, none or "
                f"{Bos.EOS if bos is Bos.BOS else Bos.BOS}"
            )
        return token_id

    def _encode(self, text: str, rules: _Rules, options: ScoreOptions) -> _Document | Failed:
        try:
            encoded = self._tokenizer.encode(text)
        except ModelError as error:  # only this text fails: the tokenizer itself was checked when it was opened
            return Failed("engine-error", str(error))
        sequence = encoded.ids if rules.bos_id is None else [rules.bos_id, *encoded.ids]
        return _Document(
            content=text.encode("utf-8", "surrogatepass"),
            encoded=encoded,
            num_before=len(sequence) - len(encoded.ids),
            sequence=sequence,
            windows=list(cut_windows(len(sequence), options.window, rules.max_length, rules.stride)),
            log_probs=np.full(len(sequence), np.nan, np.float32),
        )

    def _assemble(self, document: _Document | Failed, options: ScoreOptions) -> Outcome:
        """Sum up one document, whose windows have all been read."""
        if isinstance(document, Failed):
            return document
        scored = document.log_probs[1 : document.stop]
        finite = np.isfinite(scored)
        if not finite.all():
            return self._failed(document, 1 + int(np.argmin(finite)))
        flags = []
        if not len(scored):
            flags.append(Flag.UNSCORED)
        if document.sequence and not document.num_before:
            flags.append(Flag.UNSCORED_FIRST)
        if document.stop < len(document.sequence):
            flags.append(Flag.TRUNCATED)
        covered = _covered(document)
        return Score(
            nll_sum=0.0 - math.fsum(scored.tolist()),  # 0.0, not -0.0, where nothing is scored
            num_tokens=len(scored),
            num_words=len(covered.decode("utf-8", "replace").split()),
            num_bytes=len(covered),
            flags=merge_flags(flags),
            tokens=self._token_scores(document) if options.token_scores else (),
        )

    def _token_scores(self, document: _Document) -> tuple[TokenScore, ...]:
        encoded = document.encoded
        scored = range(1, document.stop)
        return tuple(
            TokenScore(
                self._tokenizer.token_text(token_id),
                int(encoded.starts[token]),
                int(encoded.stops[token]),
                float(document.log_probs[position]) if (position := token + document.num_before) in scored else None,
            )
            for token, token_id in enumerate(encoded.ids)
        )

    def _failed(self, document: _Document, position: int) -> Failed:
        encoded, token = document.encoded, position - document.num_before
        return Failed(
            "non-finite",
            f"the model gives {float(document.log_probs[position])} as the log-probability of token {token + 1} of "
            f"{len(encoded.ids)} ({self._tokenizer.token_text(encoded.ids[token])!r}, bytes {encoded.starts[token]} to "
            f"{encoded.stops[token]}), which is not finite",
        )


def _group(sequence: Sequence[int], window: TokenWindow) -> Group:
    """A window as a group of the reader: its context is the prefix, its scored positions are the only suffix."""
    return Group(sequence[window.start : window.first_scored], (sequence[window.first_scored : window.stop],))


def _covered(document: _Document) -> bytes:
    """The text of the scored tokens in UTF-8, with white space that no token covers: all of it if all are scored."""
    if not document.windows:
        return b""
    stops = document.encoded.stops
    begin = 0 if document.num_before else int(stops[0])
    is_whole = document.stop == len(document.sequence)
    return document.content[begin : None if is_whole else int(stops[document.stop - 1 - document.num_before])]


def cut_windows(length: int, kind: Window, max_length: int, stride: int) -> Iterator[TokenWindow]:
    """The windows of a sequence of `length` positions, in order; none if there is nothing to score.

    `max_length` has the meaning of the program that defined the kind. In transformers' recipe (`stride`) a window has
    `max_length` positions, scored ones included; the same holds for `truncate`. In lm-evaluation-harness (`disjoint`)
    the model reads `max_length` positions and scores the one after the last of them too, so a window has one more. A
    sequence that fits is one window. Only the kind `stride` uses `stride`; 1 <= stride < max_length.
    """
    if length < 2:
        return
    size = max_length + 1 if kind is Window.DISJOINT else max_length
    yield TokenWindow(0, 1, min(size, length))
    match kind:
        case Window.STRIDE:
            yield from _strides(length, size, stride)
        case Window.DISJOINT:
            yield from _disjoint(length, size)
        case Window.TRUNCATE:
            pass


def _strides(length: int, size: int, stride: int) -> Iterator[TokenWindow]:
    """The windows after the first: one begins every `stride` positions and scores the positions that the window before
    it did not reach, with at least size - stride positions of context. These are the windows of "Perplexity of
    fixed-length models" in the documentation of transformers (perplexity.md: begin_loc, end_loc, trg_len = end_loc -
    prev_end_loc)."""
    start, first_scored = stride, size
    while first_scored < length:
        stop = min(start + size, length)
        yield TokenWindow(start, first_scored, stop)
        start, first_scored = start + stride, stop


def _disjoint(length: int, size: int) -> Iterator[TokenWindow]:
    """The windows after the first: each scores the positions that follow the window before it, with one position of
    context. The last is as long as the others, so it has more context. These are the windows of lm-evaluation-harness
    0.4 (lm_eval/utils.py: make_disjoint_window over get_rolling_token_windows with context_len=1,
    max_seq_len = size - 1)."""
    first_scored = size
    while first_scored < length:
        stop = min(first_scored + size - 1, length)
        yield TokenWindow(stop - size, first_scored, stop)
        first_scored = stop


class DocumentScorer(Protocol):
    """Computes the score of every text."""

    def score(self, texts: Sequence[str], options: ScoreOptions, run: RunContext) -> Answers: ...


def score_with_reuse(scorer: DocumentScorer, texts: Sequence[str], options: ScoreOptions, run: RunContext) -> Answers:
    """Score every text. With `options.reuse`, texts in the memory are not computed, and equal texts are computed once;
    without it, the memory is neither read nor extended. Raises what the scorer raises."""
    if not options.reuse or not texts:
        return scorer.score(texts, options, run)
    keys = [memory_key(run.digest, text) for text in texts]
    known = run.memory.recall_scores(list(dict.fromkeys(keys)))
    unknown = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    if not unknown:
        return Answers(outcomes=[replace(known[key], reused=True) for key in keys])
    computed = scorer.score(list(unknown.values()), options, run)
    found = dict(zip(unknown, computed.outcomes, strict=True))
    outcomes = []
    for key in keys:
        outcome = known.get(key) or found[key]
        if isinstance(outcome, Score) and key in known:
            outcome = replace(outcome, reused=True)
        elif isinstance(outcome, Score):
            known[key] = outcome  # a later occurrence of the text is reused
        outcomes.append(outcome)
    learned = {key: outcome for key, outcome in found.items() if isinstance(outcome, Score) and outcome.is_finite}
    return Answers(outcomes=outcomes, learned={**computed.learned, **learned}, timings=computed.timings)
