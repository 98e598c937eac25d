"""
The chat template in a GGUF file (tokenizer.chat_template), with the special tokens that it may name.

llama.cpp gives a template bos_token and eos_token, whether or not it puts a BOS before other texts; here it also gets
the others that the file names, as transformers gives them.

Knows: metadata. Does not know: files, ids.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobs.errors import ModelError
from worker.text.chat_template import ChatTemplate

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


def template_in(metadata: Mapping[str, Any], file: Path) -> str | None:
    """The text of the template; None where there is none. Raises ModelError for one that is no text."""
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
