"""What `kvjobs models verify` finds: comparisons, and whether a model passed them. Does not know: models."""

import enum
from dataclasses import dataclass


class Verdict(enum.StrEnum):
    SAME = "same"  # token for token; of log-probabilities, as far as float32 can tell
    TIED = "tied"  # but for tokens that are equally likely, as far as float32 can tell
    DIFFERS = "differs"
    MEASURED = "measured"  # an approximation: no two numbers need be equal
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What one comparison gave. None: not measured, or not of this kind of model."""

    name: str
    against: str
    verdict: Verdict
    num_segments: int = 0  # of a causal model: documents
    exact: float | None = None  # share of the segments whose ids are the same
    tokens: float | None = None  # share of the tokens that are the same (checkpoint: given the same prefix)
    chrf: float | None = None  # 0 to 100, where sacrebleu is installed
    drift: float | None = None  # nats a token by which log-probabilities differ, on the mean
    num_tokens: int | None = None  # whose log-probabilities were compared
    worst: float | None = None  # nats by which that of a single token differs at most
    nats: float | None = None  # -log p a token, on the mean, as the model itself has it
    perplexity: float | None = None  # by which part the model's is above that of the other side; -0.01: 1 % below
    note: str | None = None

    @property
    def has_failed(self) -> bool:
        return self.verdict is Verdict.DIFFERS
