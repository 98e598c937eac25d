"""How large a call of llama.cpp, and the context that it works in, may be."""

from dataclasses import dataclass

from worker.engine.causal.llamacpp.context import ContextSize
from worker.engine.causal.llamacpp.network import Network

LEAST_TOKENS = 32  # of a call
_MOST_TOKENS = (
    256  # of a call: on one core, demo-lm reads 12,600 tokens/s, with 512 at once 9,100; larger models, as many
)
_MOST_LOGITS = 1 << 26  # of a call, 256 MB: llama.cpp holds them twice
_MOST_PRODUCTS = 1 << 38  # of a call, so that it ends, and a lane can stop, after seconds on one core
_SCORE_BYTES = 1 << 28  # of attention scores: one for each head, cell and token that is computed at once
_SEQUENCES = 128  # in a context
_PAD = 256  # cells; llama.cpp rounds up to as many


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """The largest sizes of one call."""

    tokens: int
    is_packed: bool  # many sequences per call, and shared prefixes computed once
    cells: int | None = None  # of every context; None: as many as its sequences need

    def sequences(self, tokens: int) -> int:
        """The sequences of a context with calls of `tokens` tokens: never more, else llama.cpp ends the process."""
        return min(_SEQUENCES, tokens) if self.is_packed else 1

    @classmethod
    def of(cls, network: Network, *, is_packed: bool, cells: int | None) -> "ContextLimits":
        """The limits for a network that keep a call within its memory and a few seconds."""
        most = min(_MOST_TOKENS, _MOST_LOGITS // network.vocab_size, _MOST_PRODUCTS // max(1, network.num_parameters))
        tokens = max(LEAST_TOKENS, most // LEAST_TOKENS * LEAST_TOKENS)
        is_packed = is_packed and not network.is_recurrent and cells is None
        return cls(min(tokens, cells) if cells else tokens, is_packed, cells)

    def context_size(self, network: Network, cells: int, tokens: int, sequences: int) -> ContextSize:
        """The size of a context for at least `cells` tokens, rounded up to a power of two so that it is seldom
        replaced."""
        cells = self.cells or max(_PAD, 1 << (cells - 1).bit_length())
        scores = max(1, network.num_heads) * cells * 4  # bytes, of one token
        computed = min(tokens, max(LEAST_TOKENS, _SCORE_BYTES // scores))
        return ContextSize(cells, tokens, computed, sequences)
