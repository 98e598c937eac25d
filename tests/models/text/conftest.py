"""Tiny Marian tokenizers, one for each family of published models; training them takes a second."""

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from worker.text.translation.marian_tokenizer import MarianTokenizer

ENGLISH = [
    "Rain is expected in the northern valleys on Monday.",
    "Snow will fall in the high mountains, and winds of 40 knots are likely.",
    "It was sunny; 12 degrees at Whitby, 14 degrees at Kelso.",
    "<The> sky: clear/cold?",
] * 4
CHINESE = ["周一北部山谷预计有雨。", "高山地区将会下雪，风力可达40节。", "天气晴朗，惠特比12度。"] * 4
RUSSIAN = ["Завтра ожидается дождь.", "Снег в горах, ветер сорок узлов."] * 8


def train_spm(sentences: list[str], **options: Any) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        vocab_size=options.pop("vocab_size", 120),
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **options,
    )
    return model.getvalue()


def pieces_of(*models: bytes) -> list[str]:
    """Every ordinary piece of these SentencePiece models, each once."""
    pieces: dict[str, None] = {}
    for content in models:
        spm = sentencepiece.SentencePieceProcessor(model_proto=content)
        pieces.update(
            (spm.id_to_piece(i), None) for i in range(len(spm)) if not spm.is_control(i) and not spm.is_unknown(i)
        )
    return list(pieces)


def write_folder(
    folder: Path, source: bytes, target: bytes, vocab: list[str], target_vocab: list[str] | None = None, **config: Any
) -> Path:
    folder.mkdir()
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(vocab)}))
    if target_vocab is not None:
        (folder / "target_vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(target_vocab)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": target_vocab is not None}))
    config = {
        "vocab_size": len(vocab),
        "eos_token_id": vocab.index("</s>"),
        "pad_token_id": vocab.index("<pad>"),
        **config,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One tiny tokenizer for each family of published models."""
    root = tmp_path_factory.mktemp("tokenizers")
    english, chinese, russian = (train_spm(sentences) for sentences in (ENGLISH, CHINESE, RUSSIAN))
    bytes_spm = train_spm(CHINESE, byte_fallback=True, vocab_size=360)
    labels_spm = train_spm(ENGLISH, user_defined_symbols=[">>fra<<", "<pad>"])
    both = pieces_of(english, chinese)
    shuffled = sorted(both)
    random.Random(5).shuffle(shuffled)
    source_only, target_only = sorted(pieces_of(english)), sorted(pieces_of(chinese), reverse=True)
    return {
        # eos first, pad last, a joint vocabulary
        "opus": write_folder(root / "opus", english, chinese, ["</s>", "<unk>", *both, "<pad>"]),
        # the same pieces in another order
        "shuffled": write_folder(
            root / "shuffled", english, chinese, ["<unk>", *shuffled[:50], "</s>", "<pad>", *shuffled[50:]]
        ),
        # special ids in the middle, pad after eos, separate vocabularies of different lengths
        "tc-big": write_folder(
            root / "tc-big",
            english,
            chinese,
            [*source_only[:30], "<s>", "<unk>", *source_only[30:], "</s>", "<pad>"],
            [*target_only[:9], "</s>", *target_only[9:], "<pad>", "<unk>"],
            decoder_vocab_size=len(target_only) + 3,
        ),
        "multilingual": write_folder(
            root / "multilingual",
            labels_spm,
            chinese,
            [
                *("</s>", "<unk>", ">>cmn_Hans<<", ">>fra<<", ">>cmn_Hant<<"),
                *[piece for piece in pieces_of(labels_spm, chinese) if piece not in (">>fra<<", "<pad>")],
                "<pad>",
            ],
        ),
        "bytes": write_folder(
            root / "bytes", english, bytes_spm, ["</s>", "<unk>", *pieces_of(english, bytes_spm), "<pad>"]
        ),
        "chinese": write_folder(
            root / "chinese", chinese, english, ["</s>", "<unk>", *pieces_of(chinese, english), "<pad>"]
        ),
        # has neither `<` nor Latin letters, so that `</s>` is one unknown piece
        "cyrillic": write_folder(
            root / "cyrillic", russian, chinese, ["</s>", "<unk>", *pieces_of(russian, chinese), "<pad>"]
        ),
    }


@pytest.fixture(scope="session")
def tokenizers(folders: dict[str, Path]) -> dict[str, MarianTokenizer]:
    return {name: MarianTokenizer.open(folder) for name, folder in folders.items()}
