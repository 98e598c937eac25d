"""Cross-encoders of published shapes with random weights, as Hugging Face checkpoints. Needs no torch.

    python -m bench.checkpoints.cross_encoders minilm-l6 --out DIR

A word of a text is a token: the tokenizer is a WordPiece of four-letter words, so that a text has as many tokens as
words, whatever engine reads it.
"""

import argparse
import json
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from worker.graphs.cross_encoder.families import read_network, tensor_names

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True, slots=True)
class CrossEncoderShape:
    """The sizes of a published model."""

    family: str
    width: int
    layers: int
    heads: int
    inner_width: int
    vocab_size: int


# The sizes in the config.json of cross-encoder/ms-marco-MiniLM-L6-v2 and -L12-v2, BAAI/bge-reranker-base and
# Alibaba-NLP/gte-reranker-modernbert-base.
CROSS_ENCODER_SHAPES = {
    "minilm-l6": CrossEncoderShape("bert", 384, 6, 12, 1536, 30_522),
    "minilm-l12": CrossEncoderShape("bert", 384, 12, 12, 1536, 30_522),
    "xlm-r-base": CrossEncoderShape("xlm-roberta", 768, 12, 12, 3072, 250_002),
    "modernbert-base": CrossEncoderShape("modernbert", 768, 22, 12, 1152, 50_368),
}
_CLASSES = {
    "bert": "BertForSequenceClassification",
    "xlm-roberta": "XLMRobertaForSequenceClassification",
    "modernbert": "ModernBertForSequenceClassification",
}


def words(shape: CrossEncoderShape) -> list[str]:
    """The words of the vocabulary, each a token."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return ["".join(four) for four in islice(product(letters, repeat=4), shape.vocab_size - len(_SPECIAL))]


def write(shape: CrossEncoderShape, folder: Path) -> None:
    """Write config.json, weights and tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    config = _config(shape)
    (folder / "config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(3)
    weights = {name: _tensor(name, config, rng) for name in sorted(tensor_names(read_network(config)))}
    save_file(weights, folder / "model.safetensors")
    _write_tokenizer(shape, folder)


def _config(shape: CrossEncoderShape) -> dict[str, Any]:
    config: dict[str, Any] = {
        "architectures": [_CLASSES[shape.family]],
        "hidden_size": shape.width,
        "id2label": {"0": "LABEL_0"},
        "intermediate_size": shape.inner_width,
        "label2id": {"LABEL_0": 0},
        "max_position_embeddings": 512,
        "model_type": shape.family,
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "pad_token_id": 0,
        "vocab_size": shape.vocab_size,
    }
    if shape.family == "modernbert":
        return config | {
            "max_position_embeddings": 8192,
            "cls_token_id": 2,
            "sep_token_id": 3,
            "reference_compile": False,
        }
    if shape.family == "bert":
        return config | {"type_vocab_size": 2}
    return config | {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}


def _tensor(name: str, config: dict[str, Any], rng: np.random.Generator) -> Any:
    width, inner = config["hidden_size"], config["intermediate_size"]
    place, _, part = name.rpartition(".")
    if "norm" in place.lower():
        return np.full(width, part == "weight", np.float32)
    rows = {"word_embeddings": config["vocab_size"], "tok_embeddings": config["vocab_size"]}
    rows |= {"position_embeddings": config["max_position_embeddings"]}
    rows |= {
        "token_type_embeddings": config.get("type_vocab_size", 0),
        "intermediate.dense": inner,
        "mlp.Wi": 2 * inner,
    }
    rows |= {"attn.Wqkv": 3 * width, "out_proj": 1, "classifier": 1}
    count = next((size for end, size in rows.items() if place.endswith(end)), width)
    if part == "bias":
        return np.zeros(count, np.float32)
    columns = inner if place.endswith(("output.dense", "mlp.Wo")) and "attention" not in place else width
    spread = 1.0 if "embeddings" in place else columns**-0.5
    return rng.standard_normal((count, columns), np.float32) * np.float32(spread)


def _write_tokenizer(shape: CrossEncoderShape, folder: Path) -> None:
    pieces = {piece: place for place, piece in enumerate((*_SPECIAL, *words(shape)))}
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    kind = int(shape.family == "bert")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair=f"[CLS]:0 $A:0 [SEP]:0 $B:{kind} [SEP]:{kind}",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.add_special_tokens(list(_SPECIAL))
    tokenizer.save(str(folder / "tokenizer.json"))
    named = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), _SPECIAL, strict=True))
    inputs = ["input_ids", *["token_type_ids"] * kind, "attention_mask"]
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 512,
        "model_input_names": inputs,
        **named,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=CROSS_ENCODER_SHAPES)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    write(CROSS_ENCODER_SHAPES[options.shape], options.out)


if __name__ == "__main__":
    main()
