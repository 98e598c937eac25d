"""
The tokenizer.json of vocab.json and merges.txt: the tokenizers of GPT-2, OPT, BART, RoBERTa and Qwen2.

Knows: what transformers 4.57 makes of the two files for each class (convert_slow_tokenizer.py, `GPT2Converter`,
`RobertaConverter`, `Qwen2Converter`; tokenization_gpt2.py and the like). Does not know: special tokens in general.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worker.text.byte_level import NFC, QWEN2_WORDS, beginning_with, byte_level_bpe, gpt2_words, words
from worker.text.conversion.added_tokens import AddedToken, NamedTokens, SpecialTokens, named_tokens
from worker.text.conversion.file_names import MERGES
from worker.text.conversion.settings import flag
from worker.text.conversion.vocabulary_text import read_merges, read_pieces
from worker.text.unknown_vocabulary import UnknownVocabularyError

_PLAIN = AddedToken("", normalized=True)
_END = "<|endoftext|>"
_GPT2 = SpecialTokens(
    dict.fromkeys(("bos_token", "eos_token", "unk_token"), _END),
    dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), _PLAIN),
)
_QWEN2 = SpecialTokens(
    dict.fromkeys(("eos_token", "unk_token", "pad_token"), _END),
    dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), AddedToken("", normalized=False, special=True)),
)
_FAIRSEQ = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "cls_token": "<s>",
    "mask_token": "<mask>",
}
# The classes differ in whether <mask> is searched in the normalized text.
_BART = SpecialTokens(
    _FAIRSEQ, dict.fromkeys(_FAIRSEQ, _PLAIN) | {"mask_token": AddedToken("", lstrip=True, normalized=True)}
)
_ROBERTA = SpecialTokens(
    _FAIRSEQ, dict.fromkeys(_FAIRSEQ, _PLAIN) | {"mask_token": AddedToken("", lstrip=True, normalized=False)}
)


def describe_gpt2(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the tokenizer.json. `config`: tokenizer_config.json. Raises ModelError."""
    description, named = _described(folder, config, _GPT2)
    if flag(folder, config, "add_bos_token", default=False):
        description["post_processor"] = beginning_with(*_numbered(folder, description, named, "bos_token"))
    return description


def describe_bart(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """As `describe_gpt2`."""
    return _with_ends(folder, config, _BART)


def describe_roberta(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """As `describe_gpt2`."""
    return _with_ends(folder, config, _ROBERTA)


def describe_qwen2(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """As `describe_gpt2`."""
    if config.get("add_prefix_space"):
        raise UnknownVocabularyError(
            f"{folder / 'tokenizer_config.json'} sets add_prefix_space, with which transformers does not open a "
            "Qwen2Tokenizer"
        )
    pieces = read_pieces(folder)
    merges = read_merges(folder / MERGES, pieces, skips_ends=False)
    description = byte_level_bpe(pieces, merges, pre_tokenizer=words(QWEN2_WORDS), normalizer=NFC)
    description["added_tokens"] = named_tokens(folder, config, _QWEN2).entries(pieces)
    return description


def _with_ends(folder: Path, config: Mapping[str, Any], of_class: SpecialTokens) -> dict[str, Any]:
    """The tokenizer.json of a class that puts <s> before a text, </s> after it, and </s></s> between two texts."""
    description, named = _described(folder, config, of_class)
    description["post_processor"] = {
        "type": "RobertaProcessing",
        "sep": _numbered(folder, description, named, "sep_token"),
        "cls": _numbered(folder, description, named, "cls_token"),
        "trim_offsets": True,
        "add_prefix_space": flag(folder, config, "add_prefix_space", default=False),
    }
    return description


def _described(folder: Path, config: Mapping[str, Any], of_class: SpecialTokens) -> tuple[dict[str, Any], NamedTokens]:
    has_prefix = flag(folder, config, "add_prefix_space", default=False)
    pieces = read_pieces(folder)
    merges = read_merges(folder / MERGES, pieces, skips_ends=True)
    named = named_tokens(folder, config, of_class)
    description = byte_level_bpe(pieces, merges, pre_tokenizer=gpt2_words(add_prefix_space=has_prefix))
    description["added_tokens"] = named.entries(pieces)
    return description, named


def _numbered(folder: Path, description: Mapping[str, Any], named: NamedTokens, role: str) -> tuple[str, int]:
    """A special token and its id. Raises UnknownVocabularyError where the files say that there is none."""
    content = named.roles.get(role)
    if content is None:
        raise UnknownVocabularyError(f"the files in {folder} say that there is no {role}, which begins or ends texts")
    ids = {token["content"]: token["id"] for token in description["added_tokens"]}
    return content, ids[content]
