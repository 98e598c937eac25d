"""
Special tokens under names that no text contains, so that text is always plain text.

To switch off the matching of special tokens is not enough, because in some models (Unigram, WordPiece) they are
ordinary pieces of the vocabulary too.

Knows: the content of a tokenizer.json. Does not know: what special tokens are for.
"""

import secrets
from collections.abc import Iterable, Mapping
from typing import Any


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
