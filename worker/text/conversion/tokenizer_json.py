"""
The tokenizer.json of a folder that has only the files of an older tokenizer: the one with which text gets the ids that
AutoTokenizer of transformers 4.57 gives for that folder (convert_slow_tokenizer.py).

Knows: which tokenizer class reads which files. Does not know: how each is described.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.text.conversion.byte_level_classes import describe_bart, describe_gpt2, describe_qwen2, describe_roberta
from worker.text.conversion.file_names import MERGES, VOCAB_JSON, VOCAB_TXT
from worker.text.conversion.settings import refuse_elsewhere
from worker.text.conversion.wordpiece_class import describe_bert
from worker.text.special_tokens import class_of
from worker.text.tokenizer_files import read_object
from worker.text.unknown_vocabulary import UnknownVocabularyError


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
