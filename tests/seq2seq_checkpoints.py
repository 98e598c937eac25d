"""Tiny checkpoints of the seq2seq families besides Marian, with random weights, written without torch."""

import functools
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from tests.checkpoints import Weights, write_weights
from worker.text.multilingual_files import FAIRSEQ, FAIRSEQ_OFFSET, M2M100_LANGUAGES

# Many scripts, so that a vocabulary of a few hundred pieces has some of each.
TEXTS = (
    "The rain falls on the hills, and the wind is cold.",
    "Der Wind weht über den Bergen; 23 °C!",
    "La pluie tombe (très fort) à 7 h 45.",
    "雨が降る。山の上に。",
    "山上下雨，风很冷。",
    "Дождь идёт в горах, ветер холодный.",
    "مطر في الجبال والريح باردة.",
    "ฝนตกบนภูเขา",
    "पहाड़ों पर बारिश होती है।",
    "비가 산에 내린다.",
    "Ο άνεμος είναι κρύος.",
)
FLORES = ("ace_Arab", "deu_Latn", "eng_Latn", "fra_Latn", "nno_Latn", "nob_Latn", "zho_Hans", "zho_Hant")


def write_m2m100(folder: Path, **sizes: Any) -> Path:
    """A checkpoint of M2M100 with its tokenizer; a seed gives the same weights."""
    folder.mkdir(parents=True, exist_ok=True)
    vocab_size = write_m2m100_tokenizer(folder, train_spm())
    return _write_checkpoint(folder, vocab_size, **sizes)


def write_nllb(folder: Path, *, legacy: bool = False, **sizes: Any) -> Path:
    """A checkpoint of NLLB with the tokenizer of its slow class."""
    folder.mkdir(parents=True, exist_ok=True)
    vocab_size = write_nllb_tokenizer(folder, train_spm(), legacy=legacy)
    return _write_checkpoint(folder, vocab_size, **sizes)


def write_m2m100_tokenizer(folder: Path, spm: bytes) -> int:
    """Write the files that M2M100Tokenizer saves; return the size of the vocabulary."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    pieces = [processor.id_to_piece(place) for place in range(len(processor)) if not processor.is_control(place)]
    vocabulary = dict(FAIRSEQ)
    for piece in pieces[::-1]:  # in another order than the model's
        vocabulary.setdefault(piece, len(vocabulary))
    (folder / "sentencepiece.bpe.model").write_bytes(spm)
    _write_json(folder / "vocab.json", vocabulary)
    languages = M2M100_LANGUAGES["m2m100"].split()
    special = [f"__{language}__" for language in languages]
    _write_json(folder / "special_tokens_map.json", {**_SPECIAL, "additional_special_tokens": special})
    config = {**_SPECIAL, "language_codes": "m2m100", "num_madeup_words": 8, "tokenizer_class": "M2M100Tokenizer"}
    _write_json(folder / "tokenizer_config.json", config)
    return len(vocabulary) + len(languages) + 8


def write_nllb_tokenizer(folder: Path, spm: bytes, *, legacy: bool = False) -> int:
    """Write the files that NllbTokenizer saves; return the size of the vocabulary."""
    (folder / "sentencepiece.bpe.model").write_bytes(spm)
    first = len(sentencepiece.SentencePieceProcessor(model_proto=spm)) + FAIRSEQ_OFFSET
    ids = FAIRSEQ | {name: first + place for place, name in enumerate((*FLORES, "<mask>"))}
    added = {
        str(token_id): {"content": name, "lstrip": name == "<mask>", "normalized": name == "<mask>", "rstrip": False,
                        "single_word": False, "special": True}
        for name, token_id in ids.items()
    }  # fmt: skip
    config = {
        **_SPECIAL, "mask_token": "<mask>", "added_tokens_decoder": added, "additional_special_tokens": list(FLORES),
        "legacy_behaviour": legacy, "src_lang": "eng_Latn", "tokenizer_class": "NllbTokenizer",
    }  # fmt: skip
    _write_json(folder / "tokenizer_config.json", config)
    return max(ids.values()) + 1


@functools.cache
def train_spm(**settings: Any) -> bytes:
    """A SentencePiece model of a few hundred pieces: BPE, as in these families."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 4),
        model_writer=model,
        vocab_size=300,
        model_type="bpe",
        hard_vocab_limit=False,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=-1,
        minloglevel=2,
        num_threads=1,
        **settings,
    )
    return model.getvalue()


FAMILIES: dict[str, Callable[[Path], Path]] = {
    "m2m100": functools.partial(write_m2m100, heads=(2, 4), seed=3),
    "nllb": functools.partial(write_nllb, width=24, seed=4),  # heads of size 6, which graphs pad
}
# By name: what writes the files of a tokenizer, the source language and the target language.
TOKENIZERS: dict[str, tuple[Callable[[Path, bytes], int], str, str]] = {
    "m2m100": (write_m2m100_tokenizer, "en", "fr"),
    "nllb": (write_nllb_tokenizer, "eng_Latn", "fra_Latn"),
    "nllb, legacy": (functools.partial(write_nllb_tokenizer, legacy=True), "deu_Latn", "zho_Hans"),
}
_SPECIAL = {
    "bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "cls_token": "<s>", "unk_token": "<unk>",
    "pad_token": "<pad>",
}  # fmt: skip


def _write_checkpoint(
    folder: Path,
    vocab_size: int,
    *,
    width: int = 32,
    layers: int = 2,
    heads: tuple[int, int] = (4, 4),
    ffn: int = 48,
    max_positions: int = 64,
    seed: int = 0,
    **changes: Any,
) -> Path:
    config = {
        "activation_function": "relu",
        "architectures": ["M2M100ForConditionalGeneration"],
        "bos_token_id": 0,
        "d_model": width,
        "decoder_attention_heads": heads[1],
        "decoder_ffn_dim": ffn,
        "decoder_layers": layers,
        "decoder_start_token_id": 2,
        "encoder_attention_heads": heads[0],
        "encoder_ffn_dim": ffn,
        "encoder_layers": layers,
        "eos_token_id": 2,
        "is_encoder_decoder": True,
        "max_position_embeddings": max_positions,
        "model_type": "m2m_100",
        "pad_token_id": 1,
        "scale_embedding": True,
        "vocab_size": vocab_size,
        **changes,
    }
    generation = {
        "bos_token_id": 0,
        "decoder_start_token_id": 2,
        "early_stopping": True,
        "eos_token_id": 2,
        "max_length": 40,
        "num_beams": 5,
        "pad_token_id": 1,
        "suppress_tokens": [1],
    }
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", generation)
    write_weights(folder, _random_weights(width, layers, ffn, vocab_size, seed), dtype="F32", shards=1)
    return folder


def _random_weights(width: int, layers: int, ffn: int, vocab_size: int, seed: int) -> Weights:
    rng = np.random.default_rng(seed)

    def draw(*shape: int, spread: float) -> NDArray[np.float32]:
        return rng.normal(0.0, spread, shape).astype(np.float32)

    def norm(name: str) -> Weights:
        return {f"{name}.weight": 1 + draw(width, spread=0.2), f"{name}.bias": draw(width, spread=0.02)}

    weights = {"model.shared.weight": draw(vocab_size, width, spread=0.4 * width**-0.5)}
    weights["model.shared.weight"][1] = 0.0  # padding
    for side, attentions in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "encoder_attn"))):
        for layer in range(layers):
            here = f"model.{side}.layers.{layer}"
            products = {f"{name}.{part}_proj": (width, width) for name in attentions for part in ("q", "k", "v", "out")}
            products |= {"fc1": (ffn, width), "fc2": (width, ffn)}
            for name, (rows, columns) in products.items():
                weights[f"{here}.{name}.weight"] = draw(rows, columns, spread=2 * columns**-0.5)
                weights[f"{here}.{name}.bias"] = draw(rows, spread=0.1)
            for name in (*(f"{name}_layer_norm" for name in attentions), "final_layer_norm"):
                weights |= norm(f"{here}.{name}")
        weights |= norm(f"model.{side}.layer_norm")
    return weights


def _write_json(file: Path, content: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
