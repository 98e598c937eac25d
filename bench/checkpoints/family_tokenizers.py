"""Build the tokenizer files of a translation family, with pieces of syllables: `models add` reads them.

Knows: the files of the published models. Does not know: weights.
"""

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import RobertaProcessing

from bench.checkpoints.tokenizer import END, KIND, PADDING, SYLLABLES, UNKNOWN, endless_pieces, sentencepiece_model
from worker.text.translation.multilingual_tokenizer import FAIRSEQ, FAIRSEQ_OFFSET, M2M100_LANGUAGES, MBART50_LANGUAGES

_MADE_UP = 8  # ids without a piece in M2M100
_PRETRAINING = 103  # ids of Pegasus before those of pieces
_NAMES = {"bos_token": "<s>", "eos_token": END, "unk_token": UNKNOWN, "pad_token": PADDING}
_FAIRSEQ_SPECIAL = ((UNKNOWN, KIND.UNKNOWN), ("<s>", KIND.CONTROL), (END, KIND.CONTROL))
_T5_SPECIAL = ((PADDING, KIND.CONTROL), (END, KIND.CONTROL), (UNKNOWN, KIND.UNKNOWN))


def write_family_tokenizer(folder: Path, family: str, vocab_size: int) -> None:
    """Write the files, whose tokenizer has `vocab_size` ids, special ones included."""
    folder.mkdir(parents=True, exist_ok=True)
    _WRITERS[family](folder, vocab_size)


def _write_m2m100(folder: Path, vocab_size: int) -> None:
    languages = [f"__{language}__" for language in M2M100_LANGUAGES["m2m100"].split()]
    pieces = _pieces(vocab_size - len(FAIRSEQ) - len(languages) - _MADE_UP)
    vocabulary = dict(FAIRSEQ) | {piece: len(FAIRSEQ) + place for place, piece in enumerate(pieces)}
    (folder / "sentencepiece.bpe.model").write_bytes(sentencepiece_model(pieces, _FAIRSEQ_SPECIAL))
    _write_json(folder / "vocab.json", vocabulary)
    _write_json(folder / "special_tokens_map.json", {**_NAMES, "additional_special_tokens": languages})
    _write_config(folder, "M2M100Tokenizer", language_codes="m2m100", num_madeup_words=_MADE_UP)


def _write_mbart50(folder: Path, vocab_size: int) -> None:
    added = FAIRSEQ_OFFSET + len(MBART50_LANGUAGES.split()) + 1  # <mask>
    pieces = _pieces(vocab_size - added - len(_FAIRSEQ_SPECIAL))
    (folder / "sentencepiece.bpe.model").write_bytes(sentencepiece_model(pieces, _FAIRSEQ_SPECIAL))
    _write_config(folder, "MBart50Tokenizer")


def _write_bart(folder: Path, vocab_size: int) -> None:
    special = ["<s>", PADDING, END, UNKNOWN, "<mask>"]
    words = [*special, *sorted(ByteLevel.alphabet())]
    words += [f"fill{number}" for number in range(vocab_size - len(words))]
    tokenizer = Tokenizer(BPE({word: number for number, word in enumerate(words)}, [], unk_token=UNKNOWN))
    tokenizer.add_special_tokens(special)
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    tokenizer.post_processor = RobertaProcessing((END, 2), ("<s>", 0), add_prefix_space=False)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    _write_config(folder, "BartTokenizer", mask_token="<mask>")


def _write_pegasus(folder: Path, vocab_size: int) -> None:
    pieces = _pieces(vocab_size - _PRETRAINING - len(_T5_SPECIAL))
    (folder / "spiece.model").write_bytes(sentencepiece_model(pieces, _T5_SPECIAL))
    _write_config(folder, "PegasusTokenizer", offset=_PRETRAINING)


def _write_t5(folder: Path, vocab_size: int) -> None:
    pieces = _pieces(vocab_size - len(_T5_SPECIAL))
    (folder / "spiece.model").write_bytes(sentencepiece_model(pieces, _T5_SPECIAL))
    _write_config(folder, "T5Tokenizer", extra_ids=0)


def _pieces(count: int) -> list[str]:
    return list(islice(endless_pieces(SYLLABLES["source"]), count))


def _write_config(folder: Path, tokenizer_class: str, **settings: Any) -> None:
    _write_json(folder / "tokenizer_config.json", {**_NAMES, "tokenizer_class": tokenizer_class, **settings})


def _write_json(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


_WRITERS: dict[str, Callable[[Path, int], None]] = {
    "m2m_100": _write_m2m100,
    "mbart": _write_mbart50,
    "bart": _write_bart,
    "pegasus": _write_pegasus,
    "t5": _write_t5,
    "mt5": _write_t5,
}
