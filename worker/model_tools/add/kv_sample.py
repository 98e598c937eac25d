"""
Made-up sentences on which `worker.engine.seq2seq.native.kv_calibration` measures a translation model.

They are made of the model's own vocabulary, so a model of any language can be added without a corpus.
"""

import random

from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer

_LENGTHS = (2, 3, 5, 8, 12, 16, 24, 32)  # pieces of a sentence
_SENTENCES = 4  # of each length


def made_up_sentences(tokenizer: Seq2SeqTokenizer, max_positions: int) -> list[list[int]]:
    """Sentences of ids, longest first."""
    rng = random.Random(0)
    lengths = [max(0, min(length, max_positions - 2)) for length in sorted(_LENGTHS, reverse=True)]
    return [tokenizer.draw(rng, length) for length in lengths for _ in range(_SENTENCES)]
