"""
The tokenizer in a GGUF file, as the tokenizer.json and tokenizer_config.json that give the same ids.

Knows: the keys tokenizer.ggml.* and how llama.cpp reads them (src/llama-vocab.cpp). Does not know: files, models.

    gpt2     byte-level BPE; how a text is cut before merging is in no file: tokenizer.ggml.pre names it
    llama    SentencePiece's BPE; which pieces merge follows from their scores

A name of `pre` whose rules are not known for certain is refused, because a wrong tokenization gives wrong scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.errors import ModelError
from worker.text.byte_level import GPT2_WORDS, LLAMA3_WORDS, NFC, QWEN2_WORDS, beginning_with, byte_level_bpe, words
from worker.text.chat_template import ChatTemplate
from worker.text.tokenizer_files import UnknownVocabularyError

_WAY_OUT = "put the model's tokenizer.json (and tokenizer_config.json) beside the file, which are then used instead"
# Types of tokens: llama_token_type in llama.cpp's include/llama.h.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_SPECIAL = (_UNKNOWN, _CONTROL, _UNUSED)  # no text gives them
KEY = "tokenizer.chat_template"
# Of llama.cpp, whose spelling of `separator` this is.
_IDS = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "sep_token": "seperator_token_id",
    "pad_token": "padding_token_id",
    "cls_token": "cls_token_id",
    "mask_token": "mask_token_id",
}
_OF_SENTENCEPIECE = {"bos_token": 1, "eos_token": 2, "unk_token": 0}  # where the file names none


@dataclass(frozen=True, slots=True)
class _PreTokenizer:
    """How a text is cut before merging."""

    patterns: tuple[str, ...]  # applied in turn, each to the pieces of the pattern before
    has_nfc: bool = False  # Qwen's own tokenizer normalizes to NFC; llama.cpp leaves that out
    ignores_merges: bool = False  # a word that is a token stays one
    adds_bos: bool = False  # where the file does not say


_LLAMA3 = _PreTokenizer((LLAMA3_WORDS,), ignores_merges=True, adds_bos=True)
_DIGITS = _PreTokenizer((r"\p{N}", GPT2_WORDS))
_PRE_TOKENIZERS = {
    "gpt-2": _PreTokenizer((GPT2_WORDS,)),
    "phi-2": _PreTokenizer((GPT2_WORDS,)),
    "llama-bpe": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama3": _LLAMA3,
    "qwen2": _PreTokenizer((QWEN2_WORDS,), has_nfc=True),  # Qwen1.5, Qwen2, Qwen2.5, Qwen3
    "smollm": _DIGITS,
    "refact": _DIGITS,  # Granite 3
    "starcoder": _DIGITS,
}


def tokenizer_files(metadata: Mapping[str, Any], name: str) -> dict[str, dict[str, Any]]:
    """The content of tokenizer.json and tokenizer_config.json, by file name. `name`: the file, for errors.

    Raises ModelError for a tokenizer that is missing or damaged, UnknownVocabularyError for one that is not known.
    """
    values = _Values(metadata, name)
    tokens, types = values.tokens()
    match metadata.get("tokenizer.ggml.model"):
        case "gpt2":
            pre = values.pre_tokenizer()
            description, adds_bos = _byte_level(values, tokens, pre), pre.adds_bos
        case "llama":
            description, adds_bos = _sentencepiece(values, tokens, types), True
        case other:
            raise UnknownVocabularyError(
                f"{name} has a tokenizer of the kind {other!r:.40}, which is not supported: {_WAY_OUT}"
            )
    description["added_tokens"] = [
        {
            "id": number,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind in _SPECIAL,
        }
        for number, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in (*_SPECIAL, _USER_DEFINED)
    ]
    adds_bos = values.flag("add_bos_token", default=adds_bos)
    default_bos, default_eos = (1, 2) if metadata["tokenizer.ggml.model"] == "llama" else (None, None)
    bos = values.token("bos_token_id", tokens, default_bos) if adds_bos else None
    if bos is not None:
        # As llama.cpp does.
        description["post_processor"] = beginning_with(bos, tokens.index(bos))
    config = {
        "bos_token": bos,
        "eos_token": values.token("eos_token_id", tokens, default_eos),
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    return {"tokenizer.json": description, "tokenizer_config.json": config}


def _byte_level(values: "_Values", tokens: Sequence[str], pre: _PreTokenizer) -> dict[str, Any]:
    """The tokenizer.json of a byte-level BPE."""
    if values.flag("add_space_prefix", default=False):
        raise UnknownVocabularyError(
            f"{values.name} puts a space before texts (add_space_prefix), which is unknown here: {_WAY_OUT}"
        )
    merges = [merge.split(" ") for merge in values.strings("merges")]
    if any(len(pair) != 2 for pair in merges):
        raise ModelError(f"{values.name} is damaged (tokenizer.ggml.merges are not pairs): download it again")
    return byte_level_bpe(
        _numbered(tokens),
        merges,
        pre_tokenizer=words(*pre.patterns),
        normalizer=NFC if pre.has_nfc else None,
        ignores_merges=pre.ignores_merges,
    )


def _sentencepiece(values: "_Values", tokens: Sequence[str], types: Sequence[int]) -> dict[str, Any]:
    """The tokenizer.json of SentencePiece's BPE, as transformers converts it (convert_slow_tokenizer.py)."""
    has_prefix = values.flag("add_space_prefix", default=True)
    # Gemma's runs of spaces and line breaks, and its tags, are tokens wherever they stand, and what is between them is
    # cut as if it were alone. Where a space is put before a text, it is unknown which of these parts get one.
    has_unknown_spaces = has_prefix and _USER_DEFINED in types
    if values.flag("remove_extra_whitespaces", default=False) or has_unknown_spaces:
        setting = "tokens of its own behind a space" if has_unknown_spaces else "remove_extra_whitespaces"
        raise UnknownVocabularyError(
            f"{values.name} has a SentencePiece tokenizer with {setting}, which is not supported: {_WAY_OUT}"
        )
    if (unknown := values.token("unknown_token_id", tokens, 0)) is None or types.count(_BYTE) != 256:
        raise UnknownVocabularyError(
            f"{values.name} has a SentencePiece tokenizer without tokens for all bytes: {_WAY_OUT}"
        )
    scores = values.numbers("scores", len(tokens))
    pieces = {token: score for token, kind, score in zip(tokens, types, scores, strict=True) if kind == _NORMAL}
    # Llama's runs of spaces have one score; whichever of them merge first, the longest remains.
    merged = [score for token, score in pieces.items() if len(token) > 1 and {*token} != {"▁"}]
    if len({*merged}) != len(merged):
        raise UnknownVocabularyError(
            f"{values.name} gives several tokens the same score, so their order is unknown: {_WAY_OUT}"
        )
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if has_prefix else []
    return {
        "version": "1.0",
        "normalizer": {
            "type": "Sequence",
            "normalizers": [*([{"type": "Prepend", "prepend": "▁"}] if has_prefix else []), replace],
        },
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                *strip,
            ],
        },
        "model": {
            "type": "BPE",
            "unk_token": unknown,
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": _numbered(tokens),
            "merges": _merges(pieces, _numbered(tokens)),
        },
    }


def _merges(pieces: Mapping[str, float], ids: Mapping[str, int]) -> list[list[str]]:
    """All pairs of pieces that make a piece, the highest scores first, among equals as transformers has them."""
    pairs = []
    for piece, score in pieces.items():
        halves = ((piece[:cut], piece[cut:]) for cut in range(1, len(piece)))
        pairs += [(-score, ids[piece], ids[a], ids[b], a, b) for a, b in halves if a in pieces and b in pieces]
    return [[left, right] for *_, left, right in sorted(pairs)]


def _numbered(tokens: Sequence[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(tokens)}


class _Values:
    """The values of tokenizer.ggml.*; raises ModelError for one of another form."""

    def __init__(self, metadata: Mapping[str, Any], name: str) -> None:
        self.name = name
        self._metadata = metadata

    def pre_tokenizer(self) -> _PreTokenizer:
        pre = self._get("pre")
        if not isinstance(pre, str) or pre not in _PRE_TOKENIZERS:
            raise UnknownVocabularyError(
                f"{self.name} cuts texts by the rules {pre!r:.40} (tokenizer.ggml.pre); known are "
                f"{', '.join(_PRE_TOKENIZERS)}: {_WAY_OUT}"
            )
        return _PRE_TOKENIZERS[pre]

    def tokens(self) -> tuple[list[str], list[int]]:
        """All tokens and their types, by id."""
        if self._get("tokens") is None:
            raise ModelError(f"{self.name} has no vocabulary (tokenizer.ggml.tokens): {_WAY_OUT}")
        tokens = self.strings("tokens")
        if len({*tokens}) != len(tokens):
            raise ModelError(f"{self.name} lists a token twice (tokenizer.ggml.tokens): {_WAY_OUT}")
        return tokens, [int(kind) for kind in self.numbers("token_type", len(tokens))]

    def token(self, key: str, tokens: Sequence[str], default: int | None) -> str | None:
        number = self._get(key)
        number = default if number is None else number
        if number is None:
            return None
        if type(number) is not int or not 0 <= number < len(tokens):
            raise self._damaged(key)
        return tokens[number]

    def strings(self, key: str) -> list[str]:
        value = self._get(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._damaged(key)
        return value

    def numbers(self, key: str, count: int) -> list[float]:
        value = self._get(key)
        if (
            not isinstance(value, list)
            or len(value) != count
            or not all(isinstance(item, int | float) for item in value)
        ):
            raise self._damaged(key)
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        value = self._get(key)
        return default if value is None else value is True

    def _get(self, key: str) -> Any:
        return self._metadata.get(f"tokenizer.ggml.{key}")

    def _damaged(self, key: str) -> ModelError:
        return ModelError(f"{self.name} has no valid tokenizer.ggml.{key}: {_WAY_OUT}")


def template_in(metadata: Mapping[str, Any], file: Path) -> str | None:
    """The text of the chat template; None where there is none. Raises ModelError for one that is no text.

    llama.cpp gives a template bos_token and eos_token, whether or not it puts a BOS before other texts; here it also
    gets the others that the file names (`named_tokens`), as transformers gives them.
    """
    template = metadata.get(KEY)
    if not isinstance(template, str | None):
        raise ModelError(f"{file} has a {KEY} that is no text: download it again")
    return template or None


def open_gguf_template(metadata: Mapping[str, Any], file: Path) -> ChatTemplate | None:
    """The template; None where there is none. Raises ModelError for one that is damaged."""
    source = template_in(metadata, file)
    return None if source is None else ChatTemplate.of(file, source, named_tokens(metadata))


def named_tokens(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The special tokens of the file, by the name of their variable."""
    listed = metadata.get("tokenizer.ggml.tokens")
    tokens = listed if isinstance(listed, list) else []
    defaults = _OF_SENTENCEPIECE if metadata.get("tokenizer.ggml.model") == "llama" else {}
    token_ids = {name: metadata.get(f"tokenizer.ggml.{key}", defaults.get(name)) for name, key in _IDS.items()}
    return {
        name: tokens[number] for name, number in token_ids.items() if type(number) is int and 0 <= number < len(tokens)
    }
