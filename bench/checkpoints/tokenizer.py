"""Build a Marian tokenizer of any size: two SentencePiece models whose pieces are syllables, and the vocabulary.

Knows: the tokenizer files of a published Marian model. Does not know: weights.
"""

import json
import math
import random
import string
from collections.abc import Iterator, Sequence
from itertools import count, islice, product
from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2 as spm

FILES = ("source.spm", "target.spm", "vocab.json", "target_vocab.json", "tokenizer_config.json")
END, UNKNOWN, PADDING = "</s>", "<unk>", "<pad>"
WORD_START = "▁"  # what SentencePiece makes of a space
SYLLABLES = {
    "source": ("ka", "to", "mi", "re", "su", "lo", "ne", "vi"),
    "target": ("ba", "du", "fe", "gi", "ho", "ju", "pa", "ze"),
}

KIND = spm.ModelProto.SentencePiece
_SPECIAL = ((UNKNOWN, KIND.UNKNOWN), ("<s>", KIND.CONTROL), (END, KIND.CONTROL))
# How much of a joint vocabulary each side's file holds. In opus-mt-en-mg that is 31,839 of 54,688 pieces for the target
# (58 %; 17 % are in both files). Here it is 49 %: two files of 32,000 pieces, which is what OPUS-MT trains, in 65,001.
_SHARE = 32_000 / 65_001


def write_tokenizer(
    folder: Path, *, source_size: int, target_size: int | None, eos_id: int, pad_id: int, seed: int = 0
) -> None:
    """Write `source.spm`, `target.spm`, `vocab.json` (and `target_vocab.json` where `target_size` is given).

    Sizes count ids, special ones included. The pieces of both sides are scattered over a joint vocabulary; ids that
    neither side uses are called `▁fill123`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pieces = {
        side: list(islice(endless_pieces(syllables), int(size * _SHARE)))
        for (side, syllables), size in zip(SYLLABLES.items(), (source_size, target_size or source_size), strict=True)
    }
    for side, some in pieces.items():
        (folder / f"{side}.spm").write_bytes(sentencepiece_model(some, _SPECIAL))
    if target_size is None:
        joint = list(dict.fromkeys((*pieces["source"], *pieces["target"])))
        _write_vocabulary(folder / "vocab.json", joint, source_size, eos_id, pad_id, seed)
    else:
        _write_vocabulary(folder / "vocab.json", pieces["source"], source_size, eos_id, pad_id, seed)
        _write_vocabulary(folder / "target_vocab.json", pieces["target"], target_size, eos_id, pad_id, seed)
    config = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": "en",
        "target_lang": "xx",
        "separate_vocabs": target_size is not None,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def endless_pieces(syllables: Sequence[str]) -> Iterator[str]:
    """Pieces without end: the letters of the syllables, all other ASCII, then words of one syllable, of two ..."""
    letters = dict.fromkeys("".join(syllables))
    yield WORD_START
    yield from letters
    words = ("".join(word) for length in count(1) for word in product(syllables, repeat=length))
    for word in islice(words, len(syllables)):
        yield from (WORD_START + word, word)
    yield from (character for character in string.printable[:94] if character not in letters)
    for word in words:
        yield from (WORD_START + word, word)


def sentencepiece_model(pieces: Sequence[str], special: Sequence[tuple[str, Any]]) -> bytes:
    """A unigram model of the special pieces, each with its type, and then of the others: later ones are rarer; a longer
    piece still scores higher than the two it is made of."""
    model = spm.ModelProto()
    model.trainer_spec.model_type = spm.TrainerSpec.UNIGRAM
    model.trainer_spec.vocab_size = len(special) + len(pieces)
    model.normalizer_spec.name = "identity"
    for piece, what in special:
        model.pieces.add(piece=piece, score=0.0, type=what)
    for rank, piece in enumerate(pieces):
        model.pieces.add(piece=piece, score=-math.log(100 + rank), type=KIND.NORMAL)
    return bytes(model.SerializeToString(deterministic=True))


def _write_vocabulary(file: Path, pieces: Sequence[str], size: int, eos_id: int, pad_id: int, seed: int) -> None:
    free = [piece_id for piece_id in range(size) if piece_id not in (eos_id, pad_id)]
    unknown_id = free.pop(0)
    random.Random(seed).shuffle(free)
    ids = dict(zip(pieces, free, strict=False))
    ids.update({f"{WORD_START}fill{piece_id}": piece_id for piece_id in free[len(ids) :]})
    ids.update({END: eos_id, UNKNOWN: unknown_id, PADDING: pad_id})
    by_id = dict(sorted(ids.items(), key=lambda item: item[1]))
    file.write_text(json.dumps(by_id, ensure_ascii=False), encoding="utf-8")
