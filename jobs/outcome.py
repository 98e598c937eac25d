"""What an engine returns, as plain values. Needs only the standard library."""

import enum
import math
from dataclasses import dataclass
from typing import NamedTuple


class Flag(enum.StrEnum):
    """A property of a result that its reader should know."""

    SPLIT = "split"  # a segment was longer than the model's positions and was translated in pieces
    TRUNCATED = "truncated"  # a hypothesis reached the length limit before its end; or a document was scored in part
    REPETITION = "repetition"  # a text repeats itself, and its source does not: the model probably looped
    UNKNOWN_SOURCE = (
        "unknown-source"  # the model's vocabulary lacks so much of a segment that its translation is invented
    )
    IMPORTED = "imported"  # a segment's translation is a unit that somebody imported, and not the model's
    PASSED_THROUGH = "passed-through"  # a segment held no letter and was copied, not translated
    UNSCORED_FIRST = "unscored-first"  # the first token had no context, so it has no log-probability
    UNSCORED = "unscored"  # no token could be scored; of a translation: the provider gives no log-probability
    MARKUP_MOVED = "markup-moved"  # the place of a tag or placeholder in the translation is a guess
    PLACEHOLDER_LOST = "placeholder-lost"  # a placeholder or an address of the source is not in the translation
    NUMBER_CHANGED = "number-changed"  # a number of the source is not in the translation
    TOO_LONG = "too-long"  # no translation that the search found has at most the characters that are asked for
    TERM_MISSING = "term-missing"  # a term of the glossary has not its translation there, or a kept one is lost
    KEPT_ORDER = "kept-order"  # some candidates could not be scored and kept their rank


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of a document's n best translations."""

    text: str
    score: float  # sum over segments of log-probability / length ** length_penalty


class AlignedSegment(NamedTuple):
    """Where a translated sentence is in the document, and where its translation is. In characters, from 0."""

    source_start: int
    source_stop: int
    target_start: int
    target_stop: int


@dataclass(frozen=True, slots=True)
class SegmentWords:
    """Which words of a sentence the words of its translation come from. Positions are in characters of the two texts of
    the document, from 0."""

    source: tuple[tuple[int, int], ...]  # start and stop of each word of the sentence, in order
    target: tuple[tuple[int, int], ...]  # the same of its translation
    links: tuple[tuple[int, int], ...]  # (i, j): word i of the sentence, word j of the translation; sorted


@dataclass(frozen=True, slots=True)
class Via:
    """The text between the two models that a document went through."""

    text: str
    log_prob: float  # of the first model: natural log, summed over every generated token, end-of-sentence included
    num_target_tokens: int  # that the first model generated
    num_source_tokens: int  # that the second model read
    segments: tuple[tuple[int, int], ...] = ()  # start and stop in `text` of each segment of the translation


@dataclass(frozen=True, slots=True)
class Translation:
    """A translated document. Where it went through two models, `log_prob` and `num_target_tokens` are of the second."""

    text: str
    log_prob: float | None  # natural log, summed over every generated token, end-of-sentence included; None: unknown
    num_segments: int
    num_reused: int  # segments taken from the translation memory
    num_source_tokens: int
    num_target_tokens: int
    flags: tuple[Flag, ...] = ()  # sorted, each once
    alternatives: tuple[Alternative, ...] = ()  # best first; empty unless n_best > 1
    segments: tuple[AlignedSegment, ...] = ()  # in the order of both texts
    via: Via | None = None  # None: one model has translated it
    # Of each of `segments`, where the job asks for them; None: its model could not tell.
    alignments: tuple[SegmentWords | None, ...] = ()
    unknown_share: float | None = (
        None  # of the characters of its segments, those that the vocabulary lacks; None: unknown
    )


@dataclass(frozen=True, slots=True)
class TokenScore:
    """A token of a scored document."""

    text: str
    start: int  # UTF-8 bytes of the document
    stop: int
    log_prob: float | None  # natural log; None: not scored


@dataclass(frozen=True, slots=True)
class Score:
    """A scored document. Perplexities are derived: exp(nll_sum / num_tokens), likewise per word and per byte."""

    nll_sum: float  # -log p in nats, summed over the scored tokens
    num_tokens: int  # scored
    num_words: int  # separated by white space, in the text that the scored tokens cover
    num_bytes: int  # UTF-8, of that text
    num_source_tokens: int = 0  # of a pair's source, end-of-sentence included
    flags: tuple[Flag, ...] = ()  # sorted, each once
    tokens: tuple[TokenScore, ...] = ()  # empty unless asked for
    reused: bool = False  # taken from the score memory, not computed

    @property
    def is_finite(self) -> bool:
        return all(map(math.isfinite, (self.nll_sum, *(token.log_prob or 0.0 for token in self.tokens))))


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A candidate at its new rank."""

    id: str
    rank: int  # from 1
    score: float | None  # by which it was ranked; None: it could not be scored
    first_score: float | None  # of the first stage, where the corpus gives one
    error: str | None = None  # why it has no score


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates of a query, best first. Those without a score keep their rank."""

    candidates: tuple[RankedCandidate, ...]
    num_tokens: int  # scored
    num_computed: int  # tokens that went through the model
    num_shared: int  # tokens of shared prefixes, which were computed once
    flags: tuple[Flag, ...] = ()  # sorted, each once


class Finish(enum.StrEnum):
    """Why a continuation ended."""

    EOS = "eos"  # the model ended it
    STOP = "stop"  # a stop text appeared
    LENGTH = "length"  # as many tokens as were allowed, or as the model has positions for


@dataclass(frozen=True, slots=True)
class Generation:
    """A continued prompt."""

    text: str  # without the prompt, and without the stop text
    log_prob: float | None  # natural log, summed over the new tokens, under the model itself; None: unknown
    finish: Finish
    num_prompt_tokens: int
    num_shared: int  # tokens of the prompt that were read for another document
    num_new_tokens: int  # the token that ended the continuation counts
    flags: tuple[Flag, ...] = ()  # sorted, each once


@dataclass(frozen=True, slots=True)
class Failed:
    """A document that could not be processed."""

    code: str  # short and stable: "engine-error", "non-finite"
    message: str


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A document that kills the process that processes it."""

    code: str  # "killed", "hung"
    message: str


Result = Translation | Score | Ranking | Generation
Outcome = Result | Failed | Quarantined


class HypothesisSums(NamedTuple):
    """What is summed of one hypothesis of a segment."""

    log_prob: float
    num_target_tokens: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class SegmentTranslation:
    """A translated segment, as the translation memory stores it. Best hypothesis first."""

    texts: tuple[str, ...]
    scores: tuple[float, ...]  # log-probability / length ** length_penalty
    log_prob: float  # of the best
    num_source_tokens: int
    num_target_tokens: int  # of the best, end-of-sentence included
    flags: tuple[Flag, ...] = ()
    unknown_share: float = 0.0  # of its characters; not stored, since the tokenizer says it again
    sums: tuple[HypothesisSums, ...] = ()  # of each text, where any of them may become the translation


# New entries for the memories: a segment's translation or a document's score, by key.
Learned = dict[bytes, SegmentTranslation | Score]


# A request is one to a provider's server: its rows are texts, its tokens those that the server says it has computed.
_DECODER, _OTHERS = ("prefill", "decode"), ("encode", "head", "request")
# Behind the name of a phase of the first of two models: its seconds are of the way to the text between them.
VIA = ".via"
# Behind the name of a phase of sentences that are translated once more, because terms are missing.
TERMS = ".terms"
DECODER_PHASES = tuple(phase + behind for behind in ("", VIA, TERMS) for phase in _DECODER)
MODEL_PHASES = (*DECODER_PHASES, *(phase + behind for behind in ("", VIA, TERMS) for phase in _OTHERS))
# + its number: the part of a model call that a stage of a split model took. The call's own timing has these seconds.
STAGE = "stage."


@dataclass(frozen=True, slots=True)
class StepTiming:
    """A model call, or another phase of a batch."""

    phase: str  # one of MODEL_PHASES | stage.N | segment | tokenize | detokenize | queue | record | wait; + VIA | TERMS
    step: int  # 0 for the first decoder call of a batch, and for phases without steps
    rows: int
    tokens: int  # rows x positions computed by this call
    past_length: int  # cached positions that this call attended to
    seconds: float
    calls: int = 1  # more where timings were summed
