"""
The tokenizer.json of a folder that has only the files of an older tokenizer: the one with which text gets the ids that
AutoTokenizer of transformers 4.57 gives for that folder (convert_slow_tokenizer.py).

Knows: which tokenizer class reads which files, and what transformers makes of them (`GPT2Converter`,
`RobertaConverter`, `Qwen2Converter`, `BertConverter`; tokenization_gpt2.py and the like).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.text.byte_level import NFC, QWEN2_WORDS, beginning_with, byte_level_bpe, gpt2_words, words
from worker.text.conversion.added_tokens import AddedToken, NamedTokens, SpecialTokens, named_tokens
from worker.text.conversion.vocabulary_text import read_merges, read_numbered_lines, read_pieces
from worker.text.file_names import MERGES, VOCAB_JSON, VOCAB_TXT
from worker.text.special_tokens import class_of
from worker.text.tokenizer_files import UnknownVocabularyError, read_object

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
_CONTINUES = "##"  # before a piece that does not begin a word
_LONGEST_WORD = 100  # letters; a longer word is unknown
_BERT = SpecialTokens(
    {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
)
# Settings with which transformers reads files outside the folder, or changes the vocabulary after reading it.
_ELSEWHERE = (
    *("vocab_file", "merges_file", "fast_tokenizer_files", "init_inputs", "tokenizer_object", "gguf_file"),
    "fix_mistral_regex",
)
_CONFIG = "tokenizer_config.json"


def describe_bert(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the tokenizer.json. `config`: tokenizer_config.json. Raises ModelError."""
    pieces = read_numbered_lines(folder / VOCAB_TXT)
    named = named_tokens(folder, config, _BERT)
    added_tokens = named.entries(pieces)
    ids = {token["content"]: token["id"] for token in added_tokens}
    unknown, first, last = (_named(folder, named.roles, role) for role in ("unk_token", "cls_token", "sep_token"))
    if unknown not in pieces:
        raise UnknownVocabularyError(f"{folder / VOCAB_TXT} lacks {unknown!r:.40}, which unknown words are replaced by")
    return {
        "version": "1.0",
        "added_tokens": added_tokens,
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": flag(folder, config, "tokenize_chinese_chars", default=True),
            "strip_accents": _strips_accents(folder, config),
            "lowercase": flag(folder, config, "do_lower_case", default=True),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": _between_ends(first, last, ids),
        "decoder": {"type": "WordPiece", "prefix": _CONTINUES, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": unknown,
            "continuing_subword_prefix": _CONTINUES,
            "max_input_chars_per_word": _LONGEST_WORD,
            "vocab": pieces,
        },
    }


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


@dataclass(frozen=True, slots=True)
class Built:
    """A tokenizer.json, and the files it was built from."""

    description: dict[str, Any]
    files: tuple[str, ...]  # their names


@dataclass(frozen=True, slots=True)
class _Class:
    """A tokenizer class of transformers."""

    files: tuple[str, ...]  # that it reads pieces from
    describe: Callable[[Path, Mapping[str, Any]], dict[str, Any]]  # (folder, tokenizer_config.json) -> tokenizer.json


_BYTE_LEVEL = (VOCAB_JSON, MERGES)
# By their names without Tokenizer.
_CLASSES = {
    "GPT2": _Class(_BYTE_LEVEL, describe_gpt2),
    "Bart": _Class(_BYTE_LEVEL, describe_bart),
    "Roberta": _Class(_BYTE_LEVEL, describe_roberta),
    "Qwen2": _Class(_BYTE_LEVEL, describe_qwen2),
    "Bert": _Class((VOCAB_TXT,), describe_bert),
}


def build_tokenizer_json(folder: Path) -> Built:
    """The content of the tokenizer.json.

    Raises ModelError for a damaged file, UnknownVocabularyError where it is not known for certain.
    """
    config = read_object(folder / "tokenizer_config.json", is_optional=True)
    of_class = _known(folder, config)
    refuse_elsewhere(folder, config)
    for name in of_class.files:
        if not (folder / name).is_file():
            raise UnknownVocabularyError(
                f"{folder / name} is missing, which a {class_of(folder, config)}Tokenizer is read from"
            )
    return Built(of_class.describe(folder, config), of_class.files)


def _known(folder: Path, config: Mapping[str, Any]) -> _Class:
    name = class_of(folder, config)
    if not name:
        raise UnknownVocabularyError(
            f"no file in {folder} says which tokenizer class its vocabulary is for (tokenizer_class)"
        )
    if name not in _CLASSES:
        raise UnknownVocabularyError(
            f"the vocabulary in {folder} is for a {name}Tokenizer, and read are those for {', '.join(_CLASSES)}"
        )
    return _CLASSES[name]


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


def _named(folder: Path, roles: Mapping[str, str], role: str) -> str:
    if role not in roles:
        raise UnknownVocabularyError(f"the files in {folder} say that there is no {role}")
    return roles[role]


def _strips_accents(folder: Path, config: Mapping[str, Any]) -> bool | None:
    """Whether accents are removed; None, the default: if the text is lowercased."""
    return None if config.get("strip_accents") is None else flag(folder, config, "strip_accents", default=False)


def _between_ends(first: str, last: str, ids: Mapping[str, int]) -> dict[str, Any]:
    """[CLS] before a text and [SEP] behind it, and behind the second of two, which has the token type 1."""
    text, second = ({"Sequence": {"id": name, "type_id": number}} for number, name in enumerate("AB"))
    begin, end, second_end = (
        {"SpecialToken": {"id": token, "type_id": number}} for token, number in ((first, 0), (last, 0), (last, 1))
    )
    return {
        "type": "TemplateProcessing",
        "single": [begin, text, end],
        "pair": [begin, text, end, second, second_end],
        "special_tokens": {token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in (first, last)},
    }


def flag(folder: Path, config: Mapping[str, Any], key: str, *, default: bool) -> bool:
    """A setting that is true or false. Raises UnknownVocabularyError for any other value."""
    value = config.get(key, default)
    if not isinstance(value, bool):
        raise UnknownVocabularyError(f"{folder / _CONFIG} says {key} = {value!r:.40}, which is neither true nor false")
    return value


def refuse_elsewhere(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise UnknownVocabularyError where a tokenizer_config.json leads to other files, or to code."""
    for key in _ELSEWHERE:
        if key in config and config[key] not in ([], {}):
            raise UnknownVocabularyError(f"{folder / _CONFIG} says {key} = {config[key]!r:.80}")
    if config.get("auto_map"):
        raise UnknownVocabularyError(f"{folder / _CONFIG} names code of its own (auto_map)")
