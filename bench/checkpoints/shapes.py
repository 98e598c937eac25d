"""The sizes of the random models.

Knows: numbers. Does not know: torch, since `bench.roof` runs without it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of one Marian model, and how its random weights are drawn."""

    width: int
    encoder_layers: int
    decoder_layers: int
    heads: int
    ffn: int
    vocab_size: int
    target_vocab_size: int | None = None  # None: source and target share one vocabulary and its embeddings
    activation: str = "swish"
    max_positions: int = 512
    max_length: int = 512
    eos_id: int = 0
    pad_id: int = 0
    spread: float = 0.02  # standard deviation of the weights
    lessons: int = 0  # training steps on a toy task; benchmarks need none
    longest_end: int = 0  # the first word of a source says how long its translation is, up to this; 0: it does not


# An untrained model repeats one token for ever. Slightly trained ones (`tiny-*`) end by themselves, are unsure between
# tokens, and depend on their source: what a test of a cache and of a beam search needs.
SHAPES = {
    "opus-shaped": Shape(
        width=512, encoder_layers=6, decoder_layers=6, heads=8, ffn=2048, vocab_size=65_001, pad_id=65_000,
    ),
    # The same, whose translations end by themselves: see `natural_ends`.
    "mixed": Shape(
        width=512, encoder_layers=6, decoder_layers=6, heads=8, ffn=2048, vocab_size=65_001, pad_id=65_000,
        longest_end=160,
    ),
    # What distilled models look like: a deep encoder, which runs once, and a shallow decoder.
    "tiny": Shape(
        width=256, encoder_layers=6, decoder_layers=2, heads=8, ffn=1024, vocab_size=32_000, pad_id=31_999,
    ),
    # The transformer-big of OPUS-MT: opus-mt-tc-big-*.
    "big": Shape(
        width=1024, encoder_layers=6, decoder_layers=6, heads=16, ffn=4096, vocab_size=65_001, pad_id=65_000,
        activation="relu",
    ),
    "tiny-swish-tied": Shape(
        width=16, encoder_layers=2, decoder_layers=2, heads=2, ffn=32, vocab_size=72, pad_id=71,
        max_positions=64, max_length=48, spread=0.1, lessons=300,
    ),
    # Heads of size 6, which native graphs pad to 8.
    "tiny-relu-tied": Shape(
        width=24, encoder_layers=2, decoder_layers=2, heads=4, ffn=32, vocab_size=64, eos_id=41, pad_id=63,
        activation="relu", max_positions=64, max_length=40, spread=0.1, lessons=200,
    ),
    # transformers 4.57 gives the decoder an embedding of `vocab_size` rows, so the target may not be the larger one.
    "tiny-swish-separate": Shape(
        width=32, encoder_layers=2, decoder_layers=2, heads=4, ffn=32, vocab_size=96, target_vocab_size=67,
        eos_id=43, pad_id=66, max_positions=64, max_length=48, spread=0.1, lessons=300,
    ),
    "tiny-relu-separate": Shape(
        width=32, encoder_layers=2, decoder_layers=2, heads=2, ffn=48, vocab_size=80, target_vocab_size=61,
        eos_id=0, pad_id=60, activation="relu", max_positions=64, max_length=40, spread=0.1, lessons=150,
    ),
}  # fmt: skip
