"""Tiny checkpoints of the seq2seq families besides Marian, with random weights, written without torch."""

import functools
import io
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import RobertaProcessing
from tokenizers.trainers import BpeTrainer

from tests.checkpoints import Weights, write_weights
from worker.text.translation.multilingual_tokenizer import (
    FAIRSEQ,
    FAIRSEQ_OFFSET,
    M2M100_LANGUAGES,
    MBART50_LANGUAGES,
    MBART_LANGUAGES,
)

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
# Families whose SentencePiece model has the ids of special tokens, or pieces for languages too; others have fairseq's.
_SPM_KINDS = {"pegasus": "own ids", "t5": "own ids", "mt5": "labels"}
T5_LANGUAGES = ("de", "en", "fr", "zh_Hant")
FLORES = ("ace_Arab", "deu_Latn", "eng_Latn", "fra_Latn", "nno_Latn", "nob_Latn", "zho_Hans", "zho_Hant")


def write_model(folder: Path, family: str, write_tokenizer: Callable[[Path, bytes], int], **sizes: Any) -> Path:
    """A checkpoint of a family, by its `model_type`, with its tokenizer; a seed gives the same weights."""
    folder.mkdir(parents=True, exist_ok=True)
    return _write_checkpoint(folder, family, write_tokenizer(folder, train_spm(family)), **sizes)


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


def write_mbart50_tokenizer(folder: Path, spm: bytes) -> int:
    """Write the files of MBart50Tokenizer; return the size of the vocabulary."""
    (folder / "sentencepiece.bpe.model").write_bytes(spm)
    _write_json(folder / "tokenizer_config.json", {**_SPECIAL, "tokenizer_class": "MBart50Tokenizer"})
    pieces = len(sentencepiece.SentencePieceProcessor(model_proto=spm))
    return pieces + FAIRSEQ_OFFSET + len(MBART50_LANGUAGES.split()) + 1  # <mask>


def write_mbart25_tokenizer(folder: Path, spm: bytes) -> int:
    """Write the files of MBartTokenizer; return the size of the vocabulary."""
    (folder / "sentencepiece.bpe.model").write_bytes(spm)
    _write_json(folder / "tokenizer_config.json", {**_SPECIAL, "tokenizer_class": "MBartTokenizer"})
    pieces = len(sentencepiece.SentencePieceProcessor(model_proto=spm))
    return pieces + FAIRSEQ_OFFSET + len(MBART_LANGUAGES.split()) + 1  # <mask>


def write_pegasus_tokenizer(folder: Path, spm: bytes, *, offset: int = 7) -> int:
    """Write the files of PegasusTokenizer, with fewer ids for pretraining; return the size of the vocabulary."""
    (folder / "spiece.model").write_bytes(spm)
    special = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    _write_json(folder / "tokenizer_config.json", {**special, "offset": offset, "tokenizer_class": "PegasusTokenizer"})
    return len(sentencepiece.SentencePieceProcessor(model_proto=spm)) + offset


def write_t5_tokenizer(folder: Path, spm: bytes) -> int:
    """Write the files of T5Tokenizer, without sentinels; return the size of the vocabulary."""
    (folder / "spiece.model").write_bytes(spm)
    special = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    _write_json(folder / "tokenizer_config.json", {**special, "extra_ids": 0, "tokenizer_class": "T5Tokenizer"})
    return len(sentencepiece.SentencePieceProcessor(model_proto=spm))


def write_bart_tokenizer(folder: Path, _spm: bytes = b"") -> int:
    """Write a tokenizer.json as BartTokenizerFast saves it; return the size of the vocabulary."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = ByteLevel.alphabet()
    trainer = BpeTrainer(vocab_size=360, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXTS * 4, trainer)
    tokenizer.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    _write_json(
        folder / "tokenizer_config.json", {**_SPECIAL, "mask_token": "<mask>", "tokenizer_class": "BartTokenizer"}
    )
    return tokenizer.get_vocab_size()


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


def spm_kind(family: str) -> str:
    """Which of three SentencePiece models a family has."""
    return _SPM_KINDS.get(family, "fairseq")


@functools.cache
def train_spm(family: str, **settings: Any) -> bytes:
    """A SentencePiece model of a few hundred pieces: BPE, as in most of these families."""
    ids: dict[str, Any] = {"pad_id": -1, "eos_id": 2}
    if family in _SPM_KINDS:
        ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    if family == "mt5":  # as MADLAD-400 has them
        ids["user_defined_symbols"] = [f"<2{language}>" for language in T5_LANGUAGES]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 4),
        model_writer=model,
        vocab_size=300,
        model_type="bpe",
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **ids,
        **settings,
    )
    return model.getvalue()


# As these families' published models have them.
_CONFIGS: dict[str, dict[str, Any]] = {
    "m2m_100": {
        "activation_function": "relu",
        "architectures": ["M2M100ForConditionalGeneration"],
        "decoder_start_token_id": 2,
        "eos_token_id": 2,
        "pad_token_id": 1,
        "scale_embedding": True,
    },
    "bart": {
        "activation_function": "gelu",
        "architectures": ["BartForConditionalGeneration"],
        "decoder_start_token_id": 2,
        "eos_token_id": 2,
        "forced_eos_token_id": 2,
        "normalize_before": False,
        "pad_token_id": 1,
        "scale_embedding": False,
    },
    "mbart": {
        "activation_function": "gelu",
        "architectures": ["MBartForConditionalGeneration"],
        "decoder_start_token_id": 2,
        "eos_token_id": 2,
        "forced_eos_token_id": 2,
        "normalize_before": True,
        "pad_token_id": 1,
        "scale_embedding": True,
        "tokenizer_class": "MBart50Tokenizer",
    },
    "pegasus": {
        "activation_function": "relu",
        "architectures": ["PegasusForConditionalGeneration"],
        "decoder_start_token_id": 0,
        "eos_token_id": 1,
        "extra_pos_embeddings": 1,
        "forced_eos_token_id": 1,
        "pad_token_id": 0,
        "scale_embedding": True,
    },
    # Heads wider than the model, and of a size that graphs pad; a tied head, whose input is scaled.
    "t5": {
        "architectures": ["T5ForConditionalGeneration"],
        "d_kv": 12,
        "decoder_start_token_id": 0,
        "eos_token_id": 1,
        "feed_forward_proj": "relu",
        "pad_token_id": 0,
        "relative_attention_max_distance": 20,
        "relative_attention_num_buckets": 8,
        "task_specific_params": {
            "summarization": {"prefix": "summarize: "},
            "translation_en_to_de": {"num_beams": 4, "prefix": "translate English to German: "},
        },
    },
    # As MADLAD-400: gated, with a head of its own and pieces for languages.
    "mt5": {
        "architectures": ["MT5ForConditionalGeneration"],
        "d_kv": 8,
        "decoder_start_token_id": 0,
        "eos_token_id": 1,
        "feed_forward_proj": "gated-gelu",
        "pad_token_id": 0,
        "tie_word_embeddings": False,
    },
}
_T5 = ("t5", "mt5")
_SPECIAL = {
    "bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "cls_token": "<s>", "unk_token": "<unk>",
    "pad_token": "<pad>",
}  # fmt: skip


def _write_checkpoint(
    folder: Path,
    family: str,
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
    sizes = {
        "decoder_attention_heads": heads[1],
        "decoder_ffn_dim": ffn,
        "decoder_layers": layers,
        "encoder_attention_heads": heads[0],
        "encoder_ffn_dim": ffn,
        "encoder_layers": layers,
        "max_position_embeddings": max_positions,
    }
    if family in _T5:
        sizes = {"d_ff": ffn, "num_heads": heads[0], "num_layers": layers, "n_positions": max_positions}
    config = {
        "d_model": width,
        "is_encoder_decoder": True,
        "model_type": family,
        **sizes,
        "vocab_size": vocab_size,
        **_CONFIGS[family],
        **changes,
    }
    generation = {
        **{name: config[name] for name in ("decoder_start_token_id", "eos_token_id", "pad_token_id")},
        "early_stopping": True,
        "max_length": 24,
        "num_beams": 5,
        "suppress_tokens": [config["pad_token_id"]],
    }
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", generation)
    weights = _random_t5_weights(config, seed) if family in _T5 else _random_weights(config, seed)
    write_weights(folder, weights, dtype="F32", shards=1)
    return folder


def _random_weights(config: Mapping[str, Any], seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    width, ffn, vocab_size = config["d_model"], config["decoder_ffn_dim"], config["vocab_size"]
    family = config["model_type"]

    def draw(*shape: int, spread: float) -> NDArray[np.float32]:
        return rng.normal(0.0, spread, shape).astype(np.float32)

    def norm(name: str) -> Weights:
        return {f"{name}.weight": 1 + draw(width, spread=0.2), f"{name}.bias": draw(width, spread=0.02)}

    weights = {"model.shared.weight": draw(vocab_size, width, spread=0.4 * width**-0.5)}
    weights["model.shared.weight"][config["pad_token_id"]] = 0.0
    if family != "m2m_100":
        weights["final_logits_bias"] = draw(1, vocab_size, spread=0.1)
    for side, attentions in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "encoder_attn"))):
        for layer in range(config["decoder_layers"]):
            here = f"model.{side}.layers.{layer}"
            products = {f"{name}.{part}_proj": (width, width) for name in attentions for part in ("q", "k", "v", "out")}
            products |= {"fc1": (ffn, width), "fc2": (width, ffn)}
            for name, (rows, columns) in products.items():
                weights[f"{here}.{name}.weight"] = draw(rows, columns, spread=2 * columns**-0.5)
                weights[f"{here}.{name}.bias"] = draw(rows, spread=0.1)
            for name in (*(f"{name}_layer_norm" for name in attentions), "final_layer_norm"):
                weights |= norm(f"{here}.{name}")
        if family != "bart":
            weights |= norm(f"model.{side}.layer_norm")
        if family in ("bart", "mbart"):
            weights |= norm(f"model.{side}.layernorm_embedding")
            weights[f"model.{side}.embed_positions.weight"] = draw(
                config["max_position_embeddings"] + 2, width, spread=0.3
            )
    return weights


def _random_t5_weights(config: Mapping[str, Any], seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    width, ffn, vocab_size, heads = config["d_model"], config["d_ff"], config["vocab_size"], config["num_heads"]
    inner_width = heads * config["d_kv"]

    def draw(*shape: int, spread: float) -> NDArray[np.float32]:
        return rng.normal(0.0, spread, shape).astype(np.float32)

    weights = {"shared.weight": draw(vocab_size, width, spread=0.4)}
    if not config.get("tie_word_embeddings", True):
        weights["lm_head.weight"] = draw(vocab_size, width, spread=0.4 * width**-0.5)
    inner = ("wi_0", "wi_1") if config["feed_forward_proj"].startswith("gated") else ("wi",)
    layers = {"encoder": config["num_layers"], "decoder": config.get("num_decoder_layers", config["num_layers"])}
    for side, attentions in (("encoder", ("SelfAttention",)), ("decoder", ("SelfAttention", "EncDecAttention"))):
        for layer in range(layers[side]):
            here = f"{side}.block.{layer}.layer"
            for number, name in enumerate(attentions):
                for part in "qkv":  # scores are not divided by the root of the size
                    spread = width**-0.5 * (0.5 if part == "q" else 1)
                    weights[f"{here}.{number}.{name}.{part}.weight"] = draw(inner_width, width, spread=spread)
                weights[f"{here}.{number}.{name}.o.weight"] = draw(width, inner_width, spread=2 * inner_width**-0.5)
            products = dict.fromkeys(inner, (ffn, width)) | {"wo": (width, ffn)}
            for name, (rows, columns) in products.items():
                weights[f"{here}.{len(attentions)}.DenseReluDense.{name}.weight"] = draw(
                    rows, columns, spread=2 * columns**-0.5
                )
            for number in range(len(attentions) + 1):
                weights[f"{here}.{number}.layer_norm.weight"] = 1 + draw(width, spread=0.2)
        buckets = config.get("relative_attention_num_buckets", 32)
        weights[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = draw(
            buckets, heads, spread=1.0
        )
        weights[f"{side}.final_layer_norm.weight"] = 1 + draw(width, spread=0.2)
    return weights


def _write_json(file: Path, content: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


FAMILIES: dict[str, Callable[[Path], Path]] = {
    "m2m100": partial(write_model, family="m2m_100", write_tokenizer=write_m2m100_tokenizer, heads=(2, 4), seed=3),
    # Heads of size 6, which graphs pad.
    "nllb": partial(write_model, family="m2m_100", write_tokenizer=write_nllb_tokenizer, width=24, seed=4),
    "mbart": partial(write_model, family="mbart", write_tokenizer=write_mbart50_tokenizer, seed=5),
    "bart": partial(write_model, family="bart", write_tokenizer=write_bart_tokenizer, seed=6),
    "pegasus": partial(write_model, family="pegasus", write_tokenizer=write_pegasus_tokenizer, seed=7),
    "t5": partial(write_model, family="t5", write_tokenizer=write_t5_tokenizer, seed=8),
    "mt5": partial(write_model, family="mt5", write_tokenizer=write_t5_tokenizer, seed=9),
}
PREFIXES = {"mt5": "<2de> "}  # what users of transformers put before a text; kvjobs does by the target language
# By name: what writes the files of a tokenizer, its model's `model_type`, the source language and the target language.
TOKENIZERS: dict[str, tuple[Callable[[Path, bytes], int], str, str | None, str | None]] = {
    "m2m100": (write_m2m100_tokenizer, "m2m_100", "en", "fr"),
    "nllb": (write_nllb_tokenizer, "m2m_100", "eng_Latn", "fra_Latn"),
    "nllb, legacy": (partial(write_nllb_tokenizer, legacy=True), "m2m_100", "deu_Latn", "zho_Hans"),
    "mbart": (write_mbart50_tokenizer, "mbart", "de_DE", "zh_CN"),
    "mbart-25": (write_mbart25_tokenizer, "mbart", "en_XX", "ro_RO"),
    "pegasus": (write_pegasus_tokenizer, "pegasus", None, None),
    "bart": (write_bart_tokenizer, "bart", None, None),
    "t5": (write_t5_tokenizer, "t5", None, None),
    "mt5": (write_t5_tokenizer, "mt5", None, "de"),
}
