"""
How sentence-transformers' CrossEncoder makes a score of a logit, and how long a pair may be: the settings that lie
beside a checkpoint.

    config_sentence_transformers.json   activation_fn; prompts
    config.json                         sentence_transformers.activation_fn, sbert_ce_default_activation_function
    modules.json                        what follows the network
    sentence_bert_config.json           max_seq_length; how texts are prepared

Knows: the files that sentence-transformers 3 to 5.7 write (cross_encoder/model.py, `get_default_activation_fn`;
base/modules/transformer.py). Does not know: networks, tokenizers. A function is known by its name, and no code that a
file names is run. Needs only the standard library.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from jobs.errors import ModelError
from worker.models.file_names import CONFIG, CROSS_ENCODER_CONFIG, MODULES, TRANSFORMER_CONFIG
from worker.models.json_file import read_json, read_json_list


class Activation(enum.StrEnum):
    """The score of a logit."""

    SIGMOID = "sigmoid"  # 1 / (1 + exp(-logit))
    IDENTITY = "identity"  # the logit itself


_ACTIVATIONS = {
    "torch.nn.Sigmoid": Activation.SIGMOID,
    "torch.nn.modules.activation.Sigmoid": Activation.SIGMOID,
    "torch.nn.Identity": Activation.IDENTITY,
    "torch.nn.modules.linear.Identity": Activation.IDENTITY,
}


@dataclass(frozen=True, slots=True)
class RelevanceSettings:
    """The settings of one model."""

    activation: Activation
    max_length: int | None  # of a pair, in tokens; None: the tokenizer's limit

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The settings in a model folder or a checkpoint; raise ModelError for a setting that is not supported."""
        own = _optional(folder / CROSS_ENCODER_CONFIG)
        if own.get("default_prompt_name") is not None:
            raise ModelError(
                f"{folder / CROSS_ENCODER_CONFIG} puts a prompt before each query (default_prompt_name), which is not "
                "supported: set it to null, and put the prompt into the queries of the corpus"
            )
        max_length = None
        if (folder / MODULES).is_file():
            _check_modules(folder / MODULES)
            max_length = _read_transformer(folder / TRANSFORMER_CONFIG)
        return cls(_activation(folder, own), max_length)


def _activation(folder: Path, own: Mapping[str, Any]) -> Activation:
    """The function that the files name; without one, of a single output, sigmoid."""
    config = read_json(folder / CONFIG)
    nested = config.get("sentence_transformers")
    file, name = folder / CONFIG, config.get("sbert_ce_default_activation_function")
    if isinstance(nested, Mapping) and "activation_fn" in nested:
        name = nested["activation_fn"]
    if own.get("activation_fn") is not None:
        file, name = folder / CROSS_ENCODER_CONFIG, own["activation_fn"]
    if name is None:
        return Activation.SIGMOID
    if name not in _ACTIVATIONS:
        raise ModelError(
            f"{file} names the activation function {name}; {', '.join(_ACTIVATIONS)} are known, and no other is run: "
            "if one of them ranks alike, write it there"
        )
    return _ACTIVATIONS[name]


def _check_modules(file: Path) -> None:
    """Raise ModelError for a model with more than a network."""
    kinds = [
        str(module.get("type")) if isinstance(module, Mapping) else repr(module) for module in read_json_list(file)
    ]
    if len(kinds) != 1 or not kinds[0].endswith(".Transformer"):
        raise ModelError(
            f"{file} lists the modules {', '.join(kinds) or '(none)'}; a cross-encoder of one Transformer alone is "
            "supported"
        )


def _read_transformer(file: Path) -> int | None:
    """`max_seq_length`; raise ModelError for settings that prepare texts in another way."""
    config = _optional(file)
    for key in ("do_lower_case", "processing_kwargs"):
        if config.get(key):
            raise ModelError(f"{file} has {key}, which is not supported: take a checkpoint whose tokenizer does it")
    if (task := config.get("transformer_task", "sequence-classification")) != "sequence-classification":
        raise ModelError(f"{file} has transformer_task {task!r}; a cross-encoder does sequence-classification")
    length = config.get("max_seq_length")
    if length is not None and (type(length) is not int or length < 1):
        raise ModelError(f"{file} gives max_seq_length the value {length!r}; it is a number of tokens")
    return length


def _optional(file: Path) -> dict[str, Any]:
    return read_json(file) if file.is_file() else {}
