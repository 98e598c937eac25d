"""What comes back from an engine: plain values, the same on every side. Standard library alone."""

import enum
import math
from dataclasses import dataclass


class Flag(enum.StrEnum):
    """What a reader of a result should know about it."""

    SPLIT = "split"  # a segment was longer than the model's positions and was translated in pieces
    TRUNCATED = "truncated"  # a hypothesis reached the length limit before its end; or a document was scored in part
    REPETITION = "repetition"  # the end of a hypothesis repeats itself: the model probably ran away
    PASSED_THROUGH = "passed-through"  # a segment held no letter and was copied, not translated
    UNSCORED_FIRST = "unscored-first"  # nothing stood before the first token, so it has no log-probability
    UNSCORED = "unscored"  # no token could be scored
    KEPT_ORDER = "kept-order"  # some candidates could not be scored and kept the place that they had


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the n best translations of a document."""

    text: str
    score: float  # sum over segments of log-probability / length ** length_penalty


@dataclass(frozen=True, slots=True)
class Translation:
    """One document, translated."""

    text: str
    log_prob: float  # natural log, summed over every generated token, end-of-sentence included
    num_segments: int
    num_reused: int  # segments whose translation was already known
    num_source_tokens: int
    num_target_tokens: int
    flags: tuple[Flag, ...] = ()  # sorted, each once
    alternatives: tuple[Alternative, ...] = ()  # best first; empty unless n_best > 1


@dataclass(frozen=True, slots=True)
class TokenScore:
    """One token of a document."""

    text: str
    start: int  # UTF-8 bytes of the document
    stop: int
    log_prob: float | None  # natural log; None: not scored


@dataclass(frozen=True, slots=True)
class Score:
    """One document, scored. Perplexities are derived: exp(nll_sum / num_tokens), and so by words and bytes."""

    nll_sum: float  # -log p in nats, summed over the scored tokens
    num_tokens: int  # scored
    num_words: int  # separated by white space, of the text that the scored tokens cover
    num_bytes: int  # UTF-8, of that text
    num_source_tokens: int = 0  # of a pair: of its source, end-of-sentence included
    flags: tuple[Flag, ...] = ()  # sorted, each once
    tokens: tuple[TokenScore, ...] = ()  # empty unless asked for
    reused: bool = False  # it was known before, and not computed

    @property
    def is_finite(self) -> bool:
        return all(map(math.isfinite, (self.nll_sum, *(token.log_prob or 0.0 for token in self.tokens))))


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A candidate at its new place."""

    id: str
    rank: int  # from 1
    score: float | None  # by which it was ranked; None: it could not be scored
    first_score: float | None  # of the first stage, where the corpus gives one
    error: str | None = None  # why it has no score


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates of one query, best first. Those without a score keep the place that they had."""

    candidates: tuple[RankedCandidate, ...]
    num_tokens: int  # scored
    num_computed: int  # tokens that went through the model
    num_shared: int  # tokens that did not, because what they begin was computed already
    flags: tuple[Flag, ...] = ()  # sorted, each once


@dataclass(frozen=True, slots=True)
class Failed:
    """One document that could not be processed."""

    code: str  # short and stable: "engine-error", "non-finite"
    message: str


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One document that kills the process which works on it."""

    code: str  # "killed", "hung"
    message: str


Result = Translation | Score | Ranking
Outcome = Result | Failed | Quarantined


@dataclass(frozen=True, slots=True)
class SegmentTranslation:
    """One translated segment, as the translation memory keeps it. Best hypothesis first."""

    texts: tuple[str, ...]
    scores: tuple[float, ...]  # log-probability / length ** length_penalty
    log_prob: float  # of the best
    num_source_tokens: int
    num_target_tokens: int  # of the best, end-of-sentence included
    flags: tuple[Flag, ...] = ()


# What an engine found out that later jobs can do without: a segment's translation, a document's score; by its key.
Learned = dict[bytes, SegmentTranslation | Score]


@dataclass(frozen=True, slots=True)
class StepTiming:
    """One model call, or one other phase of a batch."""

    phase: str  # encode | prefill | decode | head | segment | tokenize | detokenize | queue | record
    step: int  # 0 for the first decoder call of a batch; 0 for phases that have no steps
    rows: int
    tokens: int  # rows x positions computed by this call
    past_length: int  # cached positions that this call attended to
    seconds: float
    calls: int = 1  # more than one where timings were summed
