"""
The changes that transformers makes to a tokenizer.json because of the files beside it: whether a space is inserted
before the text, what becomes of case and accents, and added tokens that tokenizer.json lacks.

Knows: tokenizer_config.json and added_tokens.json, by the rules of transformers 4.57 (tokenization_utils_base.py,
`_from_pretrained`; tokenization_utils_fast.py, `__init__`; the classes of Llama, Bloom, Cohere and BERT). Does not
know: which tokens kvjobs treats as special.
"""

from collections.abc import Iterable, Mapping
from typing import Any

_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def apply_config(
    description: dict[str, Any], config: Mapping[str, Any], class_name: str, legacy_tokens: Mapping[str, Any]
) -> None:
    """Change `description`, the content of a tokenizer.json, in place, as transformers does when it opens it.

    `config`: tokenizer_config.json. `class_name`: the class of the tokenizer, without Tokenizer and Fast; "" where it
    is unknown. `legacy_tokens`: added_tokens.json, which is used where the configuration lists no added tokens.
    """
    _set_prefix_space(description, config, class_name)
    if class_name == "Bert":
        _set_bert_normalizer(description, config)
    _add_tokens(description, _declared(config, legacy_tokens), _special_names(config))


def _set_prefix_space(description: dict[str, Any], config: Mapping[str, Any], class_name: str) -> None:
    """Set `add_prefix_space` as the configuration says; the default is no space. Only an outermost pre-tokenizer is
    changed; within a sequence, only Bloom and Cohere can switch it on."""
    wanted = config.get("add_prefix_space", None if class_name == "Llama" else False)
    if not isinstance(wanted, bool):
        return
    if class_name == "Llama":
        if not description["model"].get("byte_fallback"):
            return  # not a SentencePiece model: transformers does not open such a folder
        _convert_llama(description, wanted, is_legacy=config.get("legacy") is not False)
        return
    before = description.get("pre_tokenizer")
    if isinstance(before, dict) and "add_prefix_space" in before and before.get("type") == "ByteLevel":
        before["add_prefix_space"] = wanted
    if wanted and class_name in ("Bloom", "Cohere"):
        _switch_on(before)


def _set_bert_normalizer(description: dict[str, Any], config: Mapping[str, Any]) -> None:
    """Set case, accents and Chinese characters as the configuration says; a missing setting has the class's default
    (tokenization_bert_fast.py, `__init__`)."""
    normalizer = description.get("normalizer")
    if isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer":
        normalizer["lowercase"] = config.get("do_lower_case", True)
        normalizer["strip_accents"] = config.get("strip_accents")
        normalizer["handle_chinese_chars"] = config.get("tokenize_chinese_chars", True)


def _switch_on(part: Any) -> None:
    if isinstance(part, dict):
        if part.get("add_prefix_space") is False:
            part["add_prefix_space"] = True
        for inner in part.get("pretokenizers") or ():
            _switch_on(inner)


def _convert_llama(description: dict[str, Any], prefix_space: bool, *, is_legacy: bool) -> None:
    """Rebuild the normalizer as transformers does for a LlamaTokenizer with `add_prefix_space` in its configuration
    (convert_slow_tokenizer.py, `LlamaConverter`): the same pieces, and a space before the text in one of two ways."""
    if is_legacy:
        steps: list[dict[str, Any]] = [{"type": "Prepend", "prepend": "▁"}] if prefix_space else []
        steps.append({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})
        description.update(normalizer={"type": "Sequence", "normalizers": steps}, pre_tokenizer=None)
        return
    scheme = "first" if prefix_space else "never"
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": False}
    description.update(normalizer=None, pre_tokenizer=metaspace)


def _declared(config: Mapping[str, Any], legacy_tokens: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The added tokens that the files beside tokenizer.json list, in the order of their ids there."""
    listed = config.get("added_tokens_decoder")
    if "added_tokens_decoder" in config:
        by_number = {int(number): token for number, token in (listed or {}).items() if isinstance(token, dict)}
        return [by_number[number] for number in sorted(by_number)]
    special = _special_names(config)
    numbered = sorted((number, content) for content, number in legacy_tokens.items() if type(number) is int)
    return [{"content": content, "special": content in special} for _, content in numbered]


def _add_tokens(description: dict[str, Any], tokens: Iterable[Mapping[str, Any]], special: set[str]) -> None:
    """Add tokens, or change existing ones. A new token gets the id of the piece of that text, else the next free id."""
    added: list[dict[str, Any]] = description.setdefault("added_tokens", [])
    existing = {token["content"]: token for token in added}
    pieces = description["model"].get("vocab")
    if isinstance(pieces, list):  # Unigram: a list of [piece, score]; the index is the id
        pieces = {entry[0]: piece_id for piece_id, entry in enumerate(pieces)}
    next_id = max([len(pieces), *(1 + token["id"] for token in added)])
    for token in tokens:
        content = token["content"]
        is_special = bool(token.get("special", False)) or content in special
        flags = {name: bool(token.get(name, False)) for name in _FLAGS}
        flags |= {"normalized": bool(token.get("normalized", not token.get("special", False))), "special": is_special}
        if content in existing:
            existing[content].update(flags)
        elif content:
            token_id = pieces.get(content, next_id)
            next_id += token_id == next_id
            existing[content] = {"id": token_id, "content": content, **flags}
            added.append(existing[content])


def _special_names(config: Mapping[str, Any]) -> set[str]:
    """The special tokens that a tokenizer_config.json names."""
    values = [config.get(key) for key in _SPECIAL]
    values += config.get("additional_special_tokens") or []
    return {str(value.get("content") if isinstance(value, dict) else value) for value in values if value is not None}
