"""
Random weights changed so that every translation ends by itself, after as many tokens as the first word of its source
says: segments of different lengths then end at different steps, and in every engine at the same ones.

Knows: the tensors of a Marian by their names in transformers. Does not know: torch, engines.

Some dimensions of the residual are reserved: embeddings and layers add nothing to them but what is said here. A word
for a length L carries the positional encoding of L in its embedding. In the first cross-attention of the decoder, one
head compares that with the encoding of the decoder's own position: its query holds the sines and cosines of the
position t, its key those of L, and their product, the sum of cos(w (t - L)) over the highest frequencies w, is greatest
where t is L, by a fifth. A threshold between the two, carried by the key, makes the score positive there and negative
elsewhere; all other words have keys of zero. So that head looks at the length word at step L alone, and then adds to
dimensions that the head of the model reads as end-of-sentence. All of that is far from its thresholds, so that int8
does not move it.

Shapes: D width · N heads · H head size · n frequencies.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Weights = dict[str, NDArray[np.float32]]

LENGTH_WORDS = "length_words.json"  # beside such a checkpoint: the id of the word for each length

# Dimensions of each mark: more than one, so that errors of int8 average out. They are not neighbours, because integer
# products for AVX2 add two neighbours in 16 bits, and would cut off the sum of two great ones.
_FEW, _SPACING = 4, 2
_FLAGS = 8
_CODE, _FLAG = 2.0, 8.0  # what the embedding of a length word holds, after the factor √D
_THRESHOLD = 0.9  # of the product of equal positions; that of neighbours is 0.8 of it
_SCORE = 40.0  # of the length word at its step: all others together do not count
_END, _END_LOGIT = 12.0, 0.5  # what the attention adds, and the weights of end-of-sentence there


@dataclass(frozen=True, slots=True)
class Reserved:
    """The reserved dimensions of the residual. Positional encodings are sines in the first half of the dimensions and
    cosines in the second, of falling frequency."""

    width: int  # D

    @property
    def frequencies(self) -> NDArray[np.float64]:
        """(n,): the highest ones, from 1 to 0.34."""
        number = self.width // 16 - 1
        return 10_000.0 ** (-2 * np.arange(number) / self.width)

    @property
    def positions(self) -> NDArray[np.int64]:
        """(2 n,): sines and cosines of these frequencies in the positional encoding."""
        half, number = self.width // 2, len(self.frequencies)
        return np.r_[0:number, half : half + number]

    @property
    def zero(self) -> NDArray[np.int64]:
        """Sines so slow that they are nearly 0 everywhere: what normalization has subtracted can be read there."""
        return self.width // 2 - _SPACING * np.arange(1, _FEW + 1)

    @property
    def code(self) -> NDArray[np.int64]:
        """(2 n,): of a length word; next to `zero`, where the source's own positions hardly count."""
        end = self.zero.min()
        return np.arange(end - len(self.positions), end)

    @property
    def end(self) -> NDArray[np.int64]:
        """In the decoder: positive where the translation ends."""
        return self.code[0] - _SPACING * np.arange(1, _FEW + 1)

    @property
    def flag(self) -> NDArray[np.int64]:
        """In the encoder: less than `one` in a length word. These too are cosines of nearly 1, in the decoder as well,
        so that the head of the model never chooses such a word."""
        return self.width - _SPACING * np.arange(1, _FLAGS + 1)

    @property
    def one(self) -> NDArray[np.int64]:
        """Cosines so slow that they are nearly 1 at all positions."""
        return self.flag.min() - _SPACING * np.arange(1, _FEW + 1)

    def match(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float64]:
        """How alike the encodings of two positions are: 1 if they are equal."""
        return np.cos(np.multiply.outer(one - other, self.frequencies)).mean(axis=-1)


def end_naturally(weights: Weights, *, heads: int, eos_id: int, words: Mapping[int, int]) -> None:
    """Change `weights` in place, which share one table of embeddings. `words`: the id of the word for each length, in
    tokens without end-of-sentence; a source has to begin with one of them."""
    embeddings = weights["model.shared.weight"]
    width = embeddings.shape[1]
    at, scale = Reserved(width), np.sqrt(width)
    for dimensions in (at.positions, at.code, at.end, at.zero, at.flag, at.one):
        embeddings[:, dimensions] = 0
    embeddings[eos_id, at.end] = _END_LOGIT
    for length, word in words.items():
        angles = length * at.frequencies
        embeddings[word, at.code] = _CODE / scale * np.concatenate((np.sin(angles), np.cos(angles)))
        embeddings[word, at.flag] = -_FLAG / scale
    for name in weights:
        if name.endswith(("out_proj.weight", "out_proj.bias", "fc2.weight", "fc2.bias")):
            in_encoder = name.startswith("model.encoder")
            kept = (
                (at.code, at.zero, at.flag, at.one) if in_encoder else (at.positions, at.zero, at.flag, at.one, at.end)
            )
            weights[name][np.concatenate(kept)] = 0
    _compare(weights, at, width // heads)


def _compare(weights: Weights, at: Reserved, head_size: int) -> None:
    """The first head of the decoder's first cross-attention."""
    layer = "model.decoder.layers.0.encoder_attn"
    query, key, value = (weights[f"{layer}.{name}_proj.weight"] for name in "qkv")
    for name in "qkv":
        weights[f"{layer}.{name}_proj.weight"][:head_size] = 0
        weights[f"{layer}.{name}_proj.bias"][:head_size] = 0
    number, last = len(at.frequencies), len(at.positions)
    gain = np.sqrt(_SCORE * np.sqrt(head_size) / ((1 - _THRESHOLD) * number * _CODE))
    for row, (position, code) in enumerate(zip(at.positions, at.code, strict=True)):
        query[row, position] = key[row, code] = gain
        query[row, at.zero] = key[row, at.zero] = -gain / _FEW
    query[last, at.one], query[last, at.zero] = gain / _FEW, -gain / _FEW
    threshold = _THRESHOLD * number * _CODE / _FLAG * gain
    key[last, at.flag], key[last, at.one] = threshold / _FLAGS, -threshold / _FEW
    value[0, at.flag], value[0, at.one] = -1 / _FLAG / _FLAGS, 1 / _FLAG / _FEW
    out = weights[f"{layer}.out_proj.weight"]
    out[:, :head_size] = 0
    out[at.end, 0] = _END
