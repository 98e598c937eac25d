"""
The files of the tokenizers of BART and Pegasus.

    ...Fast classes    tokenizer.json
    PegasusTokenizer   spiece.model, whose ids are moved by an offset

As AutoTokenizer of transformers does, tokenizer.json is taken where both are there.

Knows: the files, tokenizer_config.json. Does not know: how text is encoded.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from jobs.errors import ModelError
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.file_names import SENTENCEPIECE_UNIGRAM
from worker.text.tokenizer_files import read_object
from worker.text.translation.piece_cutter import PieceCutter, SentencePieceCutter, TokenizerJsonCutter
from worker.text.translation.plain_tokenizer import PlainTokenizer
from worker.text.translation.sentencepiece_file import read_sentencepiece

_TOKENIZER, _CONFIG = "tokenizer.json", "tokenizer_config.json"
_PEGASUS_OFFSET = 103  # ids that pretraining alone uses
_PEGASUS_EOS = 1


def open_plain(folder: Path, family: str) -> PlainTokenizer:
    """Load the tokenizer of a model folder, whose `model_type` is `family`; raise ModelError that names the file at
    fault."""
    config = read_tokenizer_config(folder)
    if (folder / _TOKENIZER).is_file():
        return _open_json(folder, config, family)
    if family == "bart":
        raise ModelError(
            f"{folder / _TOKENIZER} is missing: the tokenizer of a BART model is read from it; make one with "
            "AutoTokenizer.from_pretrained(...).save_pretrained(...)"
        )
    return _open_pegasus(folder, config)


def read_tokenizer_config(folder: Path) -> Mapping[str, Any]:
    """The content of tokenizer_config.json; empty where there is none. Raises ModelError for a setting that cuts text
    at random."""
    config = read_object(folder / _CONFIG, is_optional=True)
    if kwargs := config.get("sp_model_kwargs"):
        raise ModelError(
            f"{folder / _CONFIG} sets sp_model_kwargs = {orjson.dumps(kwargs).decode()}, with which text would be cut "
            "at random: remove it"
        )
    return config


def checked_eos(folder: Path, eos_id: int, cutter: PieceCutter) -> int:
    """Return `eos_id`, the tokenizer's; raise ModelError if it is not the model's, or if pieces have ids that the model
    does not have."""
    config = read_object(folder / "config.json", is_optional=True)
    size, configured = config.get("vocab_size"), config.get("eos_token_id")
    if isinstance(size, int) and (highest := max(cutter.by_frequency(), default=0)) >= size:
        raise ModelError(
            f"the tokenizer in {folder} makes ids up to {highest:,}, but config.json beside it gives a vocabulary of "
            f"{size:,}: the files belong to different models"
        )
    if isinstance(configured, int) and configured != eos_id:
        raise ModelError(
            f"the tokenizer in {folder} has {eos_id} as its end, but config.json beside it says eos_token_id = "
            f"{configured}: the files belong to different models"
        )
    return eos_id


def _open_json(folder: Path, config: Mapping[str, Any], family: str) -> PlainTokenizer:
    tokenizer = CausalTokenizer.open(folder)
    # The defaults of the classes, where no file names these tokens.
    eos_id = tokenizer.special_ids.get("</s>") if tokenizer.eos_id is None else tokenizer.eos_id
    bos_id = tokenizer.special_ids.get("<s>") if tokenizer.bos_id is None else tokenizer.bos_id
    if eos_id is None or (family == "bart" and bos_id is None):
        raise ModelError(f"{folder / _TOKENIZER} has no token </s>, or no <s>: download the tokenizer again")
    cutter = TokenizerJsonCutter(tokenizer)
    return PlainTokenizer(
        cutter=cutter,
        eos_id=checked_eos(folder, eos_id, cutter),
        before=(bos_id,) if family == "bart" and bos_id is not None else (),
        cleans_spaces=bool(config.get("clean_up_tokenization_spaces", False)),
    )


def _open_pegasus(folder: Path, config: Mapping[str, Any]) -> PlainTokenizer:
    processor = read_sentencepiece(folder / SENTENCEPIECE_UNIGRAM, "a Pegasus model")
    offset = int(config.get("offset", _PEGASUS_OFFSET))
    pieces = {
        processor.id_to_piece(piece_id): piece_id + offset
        for piece_id in range(len(processor))
        if not (processor.is_control(piece_id) or processor.is_unknown(piece_id))
    }
    cutter = SentencePieceCutter(processor, pieces, processor.unk_id() + offset, joins=True)
    return PlainTokenizer(
        cutter=cutter,
        eos_id=checked_eos(folder, _PEGASUS_EOS, cutter),
        cleans_spaces=bool(config.get("clean_up_tokenization_spaces", False)),
    )
