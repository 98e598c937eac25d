"""Tiny cross-encoders with random weights, written without torch: the files that transformers 4.57 writes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from tests.checkpoints import _write_json, write_weights
from worker.graphs.cross_encoder.families import read_network, tensor_names

ARCHITECTURES = {
    "bert": "BertForSequenceClassification",
    "roberta": "RobertaForSequenceClassification",
    "xlm-roberta": "XLMRobertaForSequenceClassification",
    "modernbert": "ModernBertForSequenceClassification",
}
# Every family, and each setting that changes what it computes.
SETTINGS: dict[str, dict[str, Any]] = {
    "bert": {"family": "bert"},
    "bert, tanh": {"family": "bert", "hidden_act": "gelu_new"},
    "bert, identity": {
        "family": "bert", "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"},
    },
    "roberta": {"family": "roberta"},
    "xlm-roberta": {"family": "xlm-roberta", "hidden_act": "relu"},
    "modernbert": {"family": "modernbert"},
    "modernbert, mean, biases": {
        "family": "modernbert", "layers": 5, "classifier_pooling": "mean", "norm_bias": True, "attention_bias": True,
        "mlp_bias": True, "classifier_bias": True, "local_rope_theta": None, "hidden_activation": "silu",
    },
    "modernbert, local at the end": {"family": "modernbert", "layers": 4, "global_attn_every_n_layers": 2},
}  # fmt: skip
POSITIONS = 64  # of a pair
WORDS = (
    *("rain", "snow", "wind", "sun", "the", "a", "in", "to", "of", "will", "be", "is", "when", "what", "where"),
    *("north", "south", "monday", "tuesday", "and", ",", ".", "?"),
)


def write_cross_encoder_checkpoint(
    folder: Path, family: str, *, layers: int = 3, seed: int = 0, spread: float = 1.5, **config: Any
) -> Path:
    """Write config.json, weights and a tokenizer into `folder`; the same arguments give the same bytes.

    `spread`: of the weights; 1 preserves norms. `config`: further entries of config.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocab_size = _write_tokenizer(folder, family)
    values = _config(family, layers, vocab_size) | config
    _write_json(folder / "config.json", values)
    write_weights(folder, random_weights(values, seed=seed, spread=spread), dtype="F32", shards=1)
    return folder


def random_weights(config: Mapping[str, Any], *, seed: int, spread: float) -> dict[str, NDArray[np.float32]]:
    """Random tensors of the shapes that config.json gives, by their names."""
    rng = np.random.default_rng(seed)
    width, inner, kind = config["hidden_size"], config["intermediate_size"], config["model_type"]
    rows = {"word_embeddings": config["vocab_size"], "tok_embeddings": config["vocab_size"]}
    rows |= {"position_embeddings": config["max_position_embeddings"], "token_type_embeddings": _types(kind)}
    rows |= {"intermediate.dense": inner, "Wi": 2 * inner, "Wqkv": 3 * width, "out_proj": 1, "classifier": 1}
    weights = {}
    for name in sorted(tensor_names(read_network(config))):
        place, _, part = name.rpartition(".")
        count = next((size for end, size in rows.items() if place.endswith(end)), width)
        if "norm" in place.lower():
            values = rng.normal(1.0 if part == "weight" else 0.0, 0.1, width)
        elif part == "bias":
            values = rng.normal(0.0, 0.2, count)
        elif "embeddings" in place:
            values = rng.normal(0.0, 1.0, (count, width))
        else:
            columns = inner if place.endswith((".output.dense", "mlp.Wo")) and "attention" not in place else width
            values = rng.normal(0.0, spread * columns**-0.5, (count, columns))
        weights[name] = values.astype(np.float32)
    return weights


def _types(kind: str) -> int:
    return 2 if kind == "bert" else 1


def _config(family: str, layers: int, vocab_size: int) -> dict[str, Any]:
    values: dict[str, Any] = {
        "architectures": [ARCHITECTURES[family]],
        "dtype": "float32",
        "hidden_size": 32,
        "id2label": {"0": "LABEL_0"},
        "intermediate_size": 48,
        "label2id": {"LABEL_0": 0},
        "max_position_embeddings": POSITIONS,
        "model_type": family,
        "num_attention_heads": 4,
        "num_hidden_layers": layers,
        "pad_token_id": 0,
        "transformers_version": "4.57.6",
        "vocab_size": vocab_size,
    }
    if family == "modernbert":
        special = {"bos_token_id": 1, "cls_token_id": 1, "eos_token_id": 2, "sep_token_id": 2}
        return values | special | {"local_attention": 8, "norm_bias": False, "attention_bias": False}
    values |= {"hidden_act": "gelu", "layer_norm_eps": 1e-12, "position_embedding_type": "absolute"}
    if family == "bert":
        return values | {"type_vocab_size": 2}
    return values | {"type_vocab_size": 1, "pad_token_id": 1, "max_position_embeddings": POSITIONS + 2}


def _write_tokenizer(folder: Path, family: str) -> int:
    """Write tokenizer.json and tokenizer_config.json as the family has them; return the size of the vocabulary."""
    make = {"bert": _word_piece, "xlm-roberta": _unigram, "roberta": _byte_level, "modernbert": _byte_level}[family]
    tokenizer, config = make(family)
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(folder / "tokenizer_config.json", {"model_max_length": POSITIONS, **config})
    size: int = tokenizer.get_vocab_size(with_added_tokens=True)
    return size


def _word_piece(family: str) -> tuple[Tokenizer, dict[str, Any]]:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = "abcdefghijklmnopqrstuvwxyz0123456789[]"
    pieces = dict.fromkeys([*special, *WORDS, *letters, *(f"##{letter}" for letter in letters)])
    tokenizer = Tokenizer(models.WordPiece({piece: place for place, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)  # the class's default is to lowercase
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.add_special_tokens(special)
    named = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True))
    return tokenizer, {"tokenizer_class": "BertTokenizer", **named}


def _unigram(family: str) -> tuple[Tokenizer, dict[str, Any]]:
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    letters = "▁abcdefghijklmnopqrstuvwxyz0123456789.,?<>/"
    pieces = [(piece, 0.0) for piece in special]
    pieces += [(f"▁{word}", -2.0 - 0.1 * place) for place, word in enumerate(WORDS) if word.isalpha()]
    pieces += [(letter, -8.0 - 0.01 * place) for place, letter in enumerate(letters)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens([*special, "<mask>"])
    named = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>"}
    return tokenizer, {"tokenizer_class": "XLMRobertaTokenizer", "unk_token": "<unk>", "mask_token": "<mask>", **named}


def _byte_level(family: str) -> tuple[Tokenizer, dict[str, Any]]:
    is_roberta = family == "roberta"
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if is_roberta else ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: place for place, piece in enumerate([*special, *letters])}
    merges = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("a", "i"), ("ai", "n"), ("s", "n"), ("o", "w"), ("sn", "ow")]
    for one, other in merges:
        vocabulary[one + other] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    if is_roberta:
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
        named = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>"}
        named |= {"unk_token": "<unk>", "mask_token": "<mask>"}
        return tokenizer, {"tokenizer_class": "RobertaTokenizer", **named}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    named = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    inputs = {"model_input_names": ["input_ids", "attention_mask"]}
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast", **named, **inputs}
