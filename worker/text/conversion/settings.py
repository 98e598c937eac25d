"""Settings in tokenizer_config.json that decide how an older tokenizer is converted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worker.text.unknown_vocabulary import UnknownVocabularyError

# Settings with which transformers reads files outside the folder, or changes the vocabulary after reading it.
_ELSEWHERE = (
    *("vocab_file", "merges_file", "fast_tokenizer_files", "init_inputs", "tokenizer_object", "gguf_file"),
    "fix_mistral_regex",
)
_CONFIG = "tokenizer_config.json"


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
