"""
Scoring given translations: log p(target | source), for filtering parallel corpora.

    {"source": …, "target": …}   tokenize -> ids of both sides
                                 sort by length, batch, run -> log-probability of each target token
                                 sum -> outcomes, in the order of the documents

The log-probabilities are those of the model's own distribution, log_softmax of its raw logits (`final_logits_bias`
included), as transformers computes the loss of `labels`: tokens that generation forbids, such as padding, keep their
share of the probability. The score of a greedy translation is therefore the log-probability that translation reports.

A pair is scored as it is and never cut into sentences: the question is whether these two lines translate each other,
and aligning their sentences anew would hide that they do not. A side that is longer than the model's positions (or
`max_length`) is cut there and flagged, whatever `window` says: windows would cut source and target at places that do
not correspond. A cut source still gets its end-of-sentence, as in transformers; a cut target's is not scored,
because the target does not end there. Otherwise the end-of-sentence counts as a token. The first token is always
scored, because the decoder's start token comes before it. A target without text consists of its end-of-sentence alone.
What every target begins with, the language in a multilingual model or BART's <s>, is given and not scored: translation
forces it, too.

Knows: one model, one lane. Does not know: jobs, shards, tables.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from jobs.answers import Answers
from jobs.outcome import Failed, Flag, Outcome, Score, TokenScore
from jobs.tasks.score import ScoreOptions
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.out_of_memory import halve_on_out_of_memory
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.logit_rules import Floats
from worker.engine.seq2seq.batches import MAX_TOKENS, IdPair, make_pair_batches
from worker.engine.seq2seq.protocol import Seq2SeqModel
from worker.text.translation.sentence_pieces import TargetPiece
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer

_END = "</s>"  # how the end-of-sentence token is shown among the token scores


@dataclass(frozen=True, slots=True)
class _Pair:
    """A document as the ids of its two sides."""

    target: str
    pieces: list[TargetPiece]  # of the target, as far as they are scored
    ids: IdPair
    num_given: int  # of the target's first ids, which are not scored
    is_truncated: bool

    @property
    def covered(self) -> bytes:
        """The scored part of the target, in UTF-8."""
        is_cut = len(self.ids.target) == self.num_given + len(self.pieces)
        text = self.target.encode("utf-8", "surrogatepass")
        return text[: self.pieces[-1].stop] if is_cut else text


class PairScorer:
    """One lane's engine for one translation model. It keeps no buffers between calls."""

    buffer_stats: BufferStats = BufferStats()

    def __init__(self, model: Seq2SeqModel, tokenizer: Seq2SeqTokenizer) -> None:
        """A model that was added with `--head target` spreads its probability over fewer tokens: it gives each token
        a higher log-probability than its checkpoint does, and cannot score a token that its head lacks."""
        self.model = model
        self._tokenizer = tokenizer
        self._scorer = model.new_scorer()

    def score(self, texts: Sequence[str], options: ScoreOptions, run: RunContext) -> Answers:
        """Score every pair. Raises SpecError if the model cannot do what the options ask, Stopped if the run is to end.

        Each text is the JSON object {"source", "target"}. No pair affects the outcome of another. Without
        `options.packing` each pair is a batch of its own. `bos`, `window` and `stride` do not apply to pairs.
        """
        tokenizer = self._tokenizer.for_source(options.source_language)
        tokenizer.check_language(options.target_language)
        with run.measure("tokenize", rows=len(texts)) as counted:
            read = [self._tokenize(tokenizer, text, options) for text in texts]
            pairs = [pair for pair in read if isinstance(pair, _Pair)]
            counted.tokens = sum(len(pair.ids.source) + len(pair.ids.target) for pair in pairs)
        scored = iter(self._run([pair.ids for pair in pairs], options, run))
        outcomes: list[Outcome] = [
            pair if isinstance(pair, Failed) else _outcome(pair, next(scored), options) for pair in read
        ]
        return Answers(outcomes=outcomes, timings=run.timings)

    def _run(self, pairs: Sequence[IdPair], options: ScoreOptions, run: RunContext) -> list[Floats]:
        """The log-probabilities of each pair's target, in order. A batch that does not fit into memory is halved until
        it does; if a single pair does not fit, the error is raised."""
        found: dict[int, Floats] = {}
        batches = deque(make_pair_batches(pairs, MAX_TOKENS if options.packing else 1))
        while batches:
            run.raise_if_stopped("batches")
            batch = batches.popleft()
            with halve_on_out_of_memory(len(batch), "pairs") as attempt:
                log_probs = self._scorer.log_probs([pairs[index] for index in batch], run)
                found.update(zip(batch, log_probs, strict=True))
            if not attempt.fits:
                batches.extendleft((batch[attempt.half :], batch[: attempt.half]))
        return [found[index] for index in range(len(pairs))]

    def _tokenize(self, tokenizer: Seq2SeqTokenizer, text: str, options: ScoreOptions) -> _Pair | Failed:
        try:
            source, target = _read(text)
        except ValueError as error:
            return Failed("bad-pair", str(error))
        limit = min(self.model.max_positions, options.max_length or self.model.max_positions)
        source_ids = tokenizer.encode(source, options.target_language)
        pieces = tokenizer.cut_target(target)
        given = tokenizer.target_prefix(options.target_language)
        # The end of the text is cut off; languages and the end-of-sentence of the source stay.
        source_fits, target_fits = len(source_ids) <= limit, len(given) + len(pieces) < limit
        source_ids = tokenizer.shorten(source_ids, limit)
        pieces = pieces[: limit - len(given)] if not target_fits else pieces
        ids = [*given, *(piece.id for piece in pieces)]
        if not (has_ids := self._scorer.has_ids(ids)).all():
            piece = tokenizer.target_piece(ids[int(has_ids.argmin())])
            return Failed(
                "unscorable",
                f"the model's head lacks the piece {piece!r} of the target: add the model again with --head full",
            )
        if target_fits:
            ids.append(tokenizer.eos_id)
        start_id = tokenizer.beginning(options.target_language).start_id
        return _Pair(target, pieces, IdPair(source_ids, ids, start_id), len(given), not (source_fits and target_fits))


def _read(text: str) -> tuple[str, str]:
    """Source and target of a document. Raises ValueError, whose message says what is wrong with the document."""
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"the document is not JSON ({error}); a pair is an object with source and target") from error
    if not isinstance(content, dict):
        raise ValueError(f"the document is a JSON {type(content).__name__}; a pair is an object with source and target")
    for name in ("source", "target"):
        if not isinstance(content.get(name), str):
            raise ValueError(f"the pair has no text as its {name}; a pair is an object with source and target")
    return content["source"], content["target"]


def _outcome(pair: _Pair, log_probs: Floats, options: ScoreOptions) -> Score | Failed:
    log_probs = log_probs[pair.num_given :]
    finite = np.isfinite(log_probs)
    if not finite.all():
        return Failed(
            "non-finite",
            f"the model's log-probability of token {int(finite.argmin()) + 1} of the target is not finite (NaN or "
            "infinity)",
        )
    covered = pair.covered
    return Score(
        nll_sum=-float(log_probs.sum(dtype=np.float64)),
        num_tokens=len(log_probs),
        num_words=len(covered.decode("utf-8", "surrogatepass").split()),
        num_bytes=len(covered),
        num_source_tokens=len(pair.ids.source),
        flags=(Flag.TRUNCATED,) if pair.is_truncated else (),
        tokens=_token_scores(pair, covered, log_probs) if options.token_scores else (),
    )


def _token_scores(pair: _Pair, covered: bytes, log_probs: Floats) -> tuple[TokenScore, ...]:
    """A score for each piece, with the bytes of the target that it covers, and one for the end-of-sentence, which
    covers none."""
    scores = [
        TokenScore(covered[piece.start : piece.stop].decode("utf-8", "replace"), piece.start, piece.stop, log_prob)
        for piece, log_prob in zip(pair.pieces, log_probs.tolist(), strict=False)
    ]
    if len(log_probs) > len(scores):
        scores.append(TokenScore(_END, len(covered), len(covered), float(log_probs[-1])))
    return tuple(scores)
