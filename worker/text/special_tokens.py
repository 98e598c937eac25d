"""
Special tokens: which BOS and EOS transformers takes for a causal model, and from which file; and all of them under
names that no text contains, so that text is always plain text. (To switch off their matching is not enough, because in
some models (Unigram, WordPiece) they are ordinary pieces of the vocabulary too.)

Knows: tokenizer_config.json, special_tokens_map.json, config.json, generation_config.json, the defaults of the
tokenizer classes of transformers 4.57, and the content of a tokenizer.json.
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.errors import ModelError
from worker.text.tokenizer_files import read_object

# The default BOS of tokenizer classes of causal models in transformers 4.57, for files that name none; by the class
# without "Tokenizer" or "TokenizerFast". Qwen2's and PreTrainedTokenizerFast have no default.
_CLASS_BOS = {
    "Bloom": "<s>",
    "CodeGen": "<|endoftext|>",
    "CodeLlama": "<s>",
    "Cohere": "<BOS_TOKEN>",
    "Gemma": "<bos>",
    "GPT2": "<|endoftext|>",
    "GPTNeoX": "<|endoftext|>",
    "Llama": "<s>",
    "XGLM": "<s>",
}
# The tokenizer class for files that name none, by the `model_type` of config.json.
_MODEL_CLASS = {
    "bart": "Bart",
    "bert": "Bert",
    "bloom": "Bloom",
    "cohere": "Cohere",
    "deepseek_v2": "Llama",
    "deepseek_v3": "Llama",
    "gemma": "Gemma",
    "gemma2": "Gemma",
    "gemma3_text": "Gemma",
    "gpt2": "GPT2",
    "gpt_bigcode": "GPT2",
    "gpt_neo": "GPT2",
    "gpt_neox": "GPTNeoX",
    "gptj": "GPT2",
    "llama": "Llama",
    "mistral": "Llama",
    "mixtral": "Llama",
    "modernbert": "PreTrained",
    "mpt": "GPTNeoX",
    "olmo": "GPTNeoX",
    "olmo2": "GPTNeoX",
    "opt": "GPT2",
    "phi": "CodeGen",
    "phi3": "Llama",
    "qwen2": "Qwen2",
    "qwen3": "Qwen2",
    "roberta": "Roberta",
    "stablelm": "GPTNeoX",
    "xglm": "XGLM",
    "xlm-roberta": "XLMRoberta",
}


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """A special token as a file writes it."""

    content: str
    file: Path


def named_token(folder: Path, config: Mapping[str, Any], key: str) -> SpecialToken | None:
    """The token that the tokenizer's own files name under `key` (`bos_token`, `eos_token`), as transformers 4.57 reads
    them (tokenization_utils_base.py, `_from_pretrained`).

    It is read from tokenizer_config.json (`config`); if that has no `added_tokens_decoder`, special_tokens_map.json
    takes precedence.
    """
    file, values = folder / "tokenizer_config.json", config
    if "added_tokens_decoder" not in config:
        legacy = folder / "special_tokens_map.json"
        if key in (special := read_object(legacy, is_optional=True)):
            file, values = legacy, special
    value = values.get(key)
    content = value.get("content") if isinstance(value, dict) else value
    if content is None:
        return None
    if not isinstance(content, str):
        raise ModelError(f"{file} says that {key} is {value!r}, which is not a token: download or export it again")
    return SpecialToken(content, file)


def default_bos(folder: Path, config: Mapping[str, Any]) -> str:
    """The BOS of a tokenizer whose files do not mention one: the default of its class; empty where there is none.

    The `bos_token_id` of config.json does not count: no tokenizer reads it, and configuration classes write a default.
    """
    return "" if _mentions(folder, config, "bos_token") else _CLASS_BOS.get(class_of(folder, config), "")


def class_of(folder: Path, config: Mapping[str, Any]) -> str:
    """The tokenizer class in transformers, without Tokenizer and Fast; empty where no file tells it."""
    of_model = read_object(folder / "config.json", is_optional=True)
    named = config.get("tokenizer_class") or of_model.get("tokenizer_class")
    if not isinstance(named, str):
        named = _MODEL_CLASS.get(str(of_model.get("model_type")), "")
    return named.removesuffix("Fast").removesuffix("Tokenizer")


def configured_eos(folder: Path, config: Mapping[str, Any], special_ids: set[int]) -> int | None:
    """The id that the model's files give as EOS, where the tokenizer's files do not mention it.

    Only the id of a special token counts: a configuration class writes its own default, whatever the vocabulary has
    there.
    """
    if _mentions(folder, config, "eos_token"):
        return None
    for name in ("generation_config.json", "config.json"):
        value = read_object(folder / name, is_optional=True).get("eos_token_id")
        first = value[0] if isinstance(value, list) and value else value
        if first is not None:
            return first if type(first) is int and first in special_ids else None
    return None


def _mentions(folder: Path, config: Mapping[str, Any], key: str) -> bool:
    """Whether the tokenizer's files name the token, or say that there is none."""
    return key in config or key in read_object(folder / "special_tokens_map.json", is_optional=True)


def rename_special(description: dict[str, Any], special: Iterable[str]) -> dict[int, str]:
    """Rename special tokens, in place, to strings that no text contains; return the content of those renamed, by id.

    A token that text needs keeps its name: a single character, or a part of merges.
    """
    ids, model = vocabulary(description), description["model"]
    needed = _merged(model)
    secret = secrets.token_hex(8)
    names = {
        content: f"\ufdd0{secret}-{ids[content]}\ufdd0"  # U+FDD0 is a noncharacter, and the secret cannot be guessed
        for content in special
        if content in ids and len(content) > 1 and content not in needed
    }
    pieces = model.get("vocab")
    if isinstance(pieces, dict):
        model["vocab"] = {names.get(piece, piece): piece_id for piece, piece_id in pieces.items()}
    elif isinstance(pieces, list):
        for content, name in names.items():
            if ids[content] < len(pieces) and pieces[ids[content]][0] == content:
                pieces[ids[content]][0] = name
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    for token in _added_tokens(description):
        if token["content"] in names:
            token.update(content=names[token["content"]], special=True)
    return {ids[content]: content for content in names}


def vocabulary(description: Mapping[str, Any]) -> dict[str, int]:
    """The id of every piece and added token."""
    pieces = description["model"].get("vocab")
    if isinstance(pieces, list):  # Unigram: a list of [piece, score]; the index is the id
        pieces = {entry[0]: piece_id for piece_id, entry in enumerate(pieces) if isinstance(entry, list) and entry}
    added = {token["content"]: token["id"] for token in _added_tokens(description)}
    return {**(pieces if isinstance(pieces, dict) else {}), **added}


def special_contents(description: Mapping[str, Any], config: Mapping[str, Any]) -> set[str]:
    """The content of all special tokens, of tokenizer.json and tokenizer_config.json."""
    declared = config.get("added_tokens_decoder")
    tokens = [*_added_tokens(description), *(declared.values() if isinstance(declared, dict) else ())]
    return {
        token["content"]
        for token in tokens
        if isinstance(token, dict) and token.get("special") and isinstance(token.get("content"), str)
    }


def _merged(model: Mapping[str, Any]) -> set[str]:
    """The pieces of a BPE model that are merged, and the results."""
    merged: set[str] = set()
    for merge in model.get("merges") or ():
        pair = merge.split(" ", 1) if isinstance(merge, str) else merge  # both formats are in use
        merged.update(pair)
        merged.add("".join(pair))
    return merged


def _added_tokens(description: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        token
        for token in description.get("added_tokens") or ()
        if isinstance(token, dict) and isinstance(token.get("content"), str) and type(token.get("id")) is int
    ]
