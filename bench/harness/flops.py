"""How much arithmetic a translated token takes, to compare a rate of tokens with the machine's peak.

Knows: the sizes of a Marian. Does not know: machines, engines.

Shapes: S source length · T target length · D width · F feed-forward width · V vocabulary · k beams.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bench.checkpoints.shapes import Shape


@dataclass(frozen=True, slots=True)
class Sizes:
    """What decides how much arithmetic a model does."""

    encoder_layers: int
    decoder_layers: int
    width: int  # D
    ffn: int  # F
    head: int  # V: the target tokens that the head scores

    @classmethod
    def of(cls, shape: Shape) -> Self:
        """Of a random model."""
        head = shape.target_vocab_size or shape.vocab_size
        return cls(shape.encoder_layers, shape.decoder_layers, shape.width, shape.ffn, head)

    @classmethod
    def read(cls, checkpoint: Path) -> Self:
        """From config.json."""
        config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
        return cls(
            encoder_layers=config["encoder_layers"],
            decoder_layers=config["decoder_layers"],
            width=config["d_model"],
            ffn=config["decoder_ffn_dim"],
            head=config.get("decoder_vocab_size") or config["vocab_size"],
        )


def flop_per_token(sizes: Sizes, *, source_tokens: float, target_tokens: float, beams: int = 1) -> float:
    """Floating-point (or integer) operations for each token of a translation of S to T tokens, padding not counted.

    A product of a row of n numbers with a matrix of n x m counts 2nm. With the cache, for one sentence:

        encoder        S   x layers x (8 D² + 4 D F + 4 S D)         q k v out · feed-forward · scores and mixing
        its keys       S   x layers x 4 D²                           cross-attention, once
        decoder        T k x layers x (12 D² + 4 D F + 4 S D + 2 T D)   the mean past is T / 2
        head           T k x 2 D V

    and all of it divided by T. Norms, activations and the search are left out: 1 % at these sizes.
    """
    s, t, d, f = source_tokens, target_tokens, sizes.width, sizes.ffn
    encoder = s * sizes.encoder_layers * (8 * d * d + 4 * d * f + 4 * s * d)
    keys = s * sizes.decoder_layers * 4 * d * d
    decoder = t * beams * sizes.decoder_layers * (12 * d * d + 4 * d * f + 4 * s * d + 2 * t * d)
    head = t * beams * 2 * d * sizes.head
    return (encoder + keys + decoder + head) / t
