"""
The ids that transformers puts before a prompt: a BOS, or none.

Knows: the post-processor in tokenizer.json, and the classes of transformers 4.57 that replace it
(`update_post_processor` in tokenization_llama_fast.py, and in the files of CodeLlama, Gemma and Cohere).
"""

from collections.abc import Mapping
from typing import Any

_ADDS_BOS = ("Llama", "CodeLlama", "Gemma", "Cohere")  # unless add_bos_token says otherwise


def prompt_beginning(
    description: Mapping[str, Any], config: Mapping[str, Any], class_name: str, bos_id: int | None
) -> tuple[int, ...]:
    """The ids before a prompt. `description`: tokenizer.json; `config`: tokenizer_config.json; `class_name`: the class
    of the tokenizer, without Tokenizer and Fast."""
    if class_name in _ADDS_BOS:
        return (bos_id,) if bos_id is not None and config.get("add_bos_token", True) else ()
    return tuple(_before(description.get("post_processor")))


def _before(processor: Any) -> list[int]:
    """The ids that a post-processor puts before a single sequence (processors of the library tokenizers)."""
    if not isinstance(processor, dict):
        return []
    match processor.get("type"):
        case "Sequence":
            return [token_id for step in reversed(processor.get("processors") or ()) for token_id in _before(step)]
        case "TemplateProcessing":
            return _before_template(processor)
        case "BertProcessing" | "RobertaProcessing":
            return [processor["cls"][1]]
    return []


def _before_template(processor: Mapping[str, Any]) -> list[int]:
    ids: list[int] = []
    for part in processor.get("single") or ():
        if "SpecialToken" not in part:
            break
        ids += processor["special_tokens"][part["SpecialToken"]["id"]]["ids"]
    return ids
