"""What comes back from an engine: plain values, the same on every side. Standard library alone."""

import enum
from dataclasses import dataclass


class Flag(enum.StrEnum):
    """What a reader of a translation should know about it."""

    SPLIT = "split"  # a segment was longer than the model's positions and was translated in pieces
    TRUNCATED = "truncated"  # a hypothesis reached the length limit before the end-of-sentence token
    REPETITION = "repetition"  # the end of a hypothesis repeats itself: the model probably ran away
    PASSED_THROUGH = "passed-through"  # a segment held no letter and was copied, not translated


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
class Failed:
    """One document that could not be processed."""

    code: str  # short and stable: "engine-error", "non-finite"
    message: str


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One document that kills the process which works on it."""

    code: str  # "killed", "hung"
    message: str


Outcome = Translation | Failed | Quarantined


@dataclass(frozen=True, slots=True)
class SegmentTranslation:
    """One translated segment, as the translation memory keeps it. Best hypothesis first."""

    texts: tuple[str, ...]
    scores: tuple[float, ...]  # log-probability / length ** length_penalty
    log_prob: float  # of the best
    num_source_tokens: int
    num_target_tokens: int  # of the best, end-of-sentence included
    flags: tuple[Flag, ...] = ()


@dataclass(frozen=True, slots=True)
class StepTiming:
    """One model call, or one other phase of a batch."""

    phase: str  # encode | prefill | decode | segment | tokenize | detokenize | queue | record
    step: int  # 0 for the first decoder call of a batch; 0 for phases that have no steps
    rows: int
    tokens: int  # rows x positions computed by this call
    past_length: int  # cached positions that this call attended to
    seconds: float
    calls: int = 1  # more than one where timings were summed
