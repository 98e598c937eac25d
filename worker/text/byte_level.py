"""
Byte-level BPE, as a tokenizer.json describes it: how texts are cut into words before merging, the model, a BOS before
a text.

Knows: the format of tokenizer.json. Does not know: the files that vocabularies come in.
"""

from collections.abc import Mapping, Sequence
from typing import Any

GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2_WORDS = _WORDS % r"\p{N}"
LLAMA3_WORDS = _WORDS % r"\p{N}{1,3}"
NFC = {"type": "NFC"}  # the normalizer of Qwen's own tokenizer


def byte_level_bpe(
    pieces: Mapping[str, int],
    merges: Sequence[Sequence[str]],
    *,
    pre_tokenizer: Mapping[str, Any],
    normalizer: Mapping[str, Any] | None = None,
    ignores_merges: bool = False,
) -> dict[str, Any]:
    """The content of tokenizer.json, without added tokens. `pieces`: ids; `ignores_merges`: a word that is a piece
    stays one."""
    return {
        "version": "1.0",
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": _as_bytes(use_regex=True),
        "model": {"type": "BPE", "ignore_merges": ignores_merges, "vocab": dict(pieces), "merges": [*merges]},
    }


def gpt2_words(*, add_prefix_space: bool) -> dict[str, Any]:
    """The pre-tokenizer of GPT-2, whose expression is part of the library. A space before the text is optional."""
    return _as_bytes(use_regex=True) | {"add_prefix_space": add_prefix_space}


def words(*patterns: str) -> dict[str, Any]:
    """The pre-tokenizer that applies regular expressions in turn, each to the pieces left by the one before."""
    splits = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in patterns
    ]
    return {"type": "Sequence", "pretokenizers": [*splits, _as_bytes(use_regex=False)]}


def beginning_with(bos: str, bos_id: int) -> dict[str, Any]:
    """The post-processor that puts a BOS before a text."""
    first: dict[str, Any] = {"SpecialToken": {"id": bos, "type_id": 0}}
    text, second = ({"Sequence": {"id": name, "type_id": number}} for number, name in enumerate("AB"))
    return {
        "type": "TemplateProcessing",
        "single": [first, text],
        "pair": [first, text, second],
        "special_tokens": {bos: {"id": bos, "ids": [bos_id], "tokens": [bos]}},
    }


def _as_bytes(*, use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}
