"""
The tokenizer.json of vocab.txt: the tokenizer of BERT.

Knows: what transformers 4.57 makes of the file (convert_slow_tokenizer.py, `BertConverter`; tokenization_bert_fast.py).
Does not know: special tokens in general.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worker.text.conversion.added_tokens import SpecialTokens, named_tokens
from worker.text.conversion.file_names import VOCAB_TXT
from worker.text.conversion.settings import flag
from worker.text.conversion.vocabulary_text import read_numbered_lines
from worker.text.unknown_vocabulary import UnknownVocabularyError

_CONTINUES = "##"  # before a piece that does not begin a word
_LONGEST_WORD = 100  # letters; a longer word is unknown
_BERT = SpecialTokens(
    {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
)


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
        "post_processor": _with_ends(first, last, ids),
        "decoder": {"type": "WordPiece", "prefix": _CONTINUES, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": unknown,
            "continuing_subword_prefix": _CONTINUES,
            "max_input_chars_per_word": _LONGEST_WORD,
            "vocab": pieces,
        },
    }


def _named(folder: Path, roles: Mapping[str, str], role: str) -> str:
    if role not in roles:
        raise UnknownVocabularyError(f"the files in {folder} say that there is no {role}")
    return roles[role]


def _strips_accents(folder: Path, config: Mapping[str, Any]) -> bool | None:
    """Whether accents are removed; None, the default: if the text is lowercased."""
    return None if config.get("strip_accents") is None else flag(folder, config, "strip_accents", default=False)


def _with_ends(first: str, last: str, ids: Mapping[str, int]) -> dict[str, Any]:
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
