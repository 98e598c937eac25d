"""
The files of the tokenizers of T5 and its kin, and the prefixes that a model knows.

    T5TokenizerFast   tokenizer.json
    T5Tokenizer       spiece.model, whose ids are the model's

As AutoTokenizer of transformers does, tokenizer.json is taken where both are there.

    prefixes          pieces such as <2de> (MADLAD-400), else task_specific_params of config.json (T5):
                      {"translation_en_to_de": {"prefix": "translate English to German: "}}

Knows: the files. Does not know: how text is encoded.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobs.errors import ModelError
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.file_names import SENTENCEPIECE_UNIGRAM
from worker.text.tokenizer_files import read_object
from worker.text.translation.piece_cutter import PieceCutter, SentencePieceCutter, TokenizerJsonCutter
from worker.text.translation.plain_files import checked_eos, read_tokenizer_config
from worker.text.translation.prefix_tokenizer import PrefixTokenizer
from worker.text.translation.sentencepiece_file import read_sentencepiece

_TOKENIZER = "tokenizer.json"
_LABEL = re.compile(r"▁?<2([A-Za-z]{2,}(?:[_-][A-Za-z]+)*)>")
_TASK = re.compile(r"translation_([a-z]{2,3})_to_([a-z]{2,3})")
_END = "</s>"


def open_prefixed(folder: Path) -> PrefixTokenizer:
    """Load the tokenizer of a model folder; raise ModelError that names the file at fault."""
    config = read_tokenizer_config(folder)
    is_json = (folder / _TOKENIZER).is_file()
    cutter, eos_id = _open_json(folder) if is_json else _open_sentencepiece(folder, config)
    cleans = bool(config.get("clean_up_tokenization_spaces", False))
    eos_id = checked_eos(folder, eos_id, cutter)
    if labels := _labels(cutter):
        return PrefixTokenizer(cutter=cutter, eos_id=eos_id, prefixes=labels, needs_language=True, cleans_spaces=cleans)
    tasks = _tasks(read_object(folder / "config.json", is_optional=True))
    return PrefixTokenizer(
        cutter=cutter,
        eos_id=eos_id,
        prefixes={target: prefix for (_source, target), prefix in tasks.items()},
        sources=frozenset(source for source, _target in tasks),
        cleans_spaces=cleans,
    )


def _open_json(folder: Path) -> tuple[PieceCutter, int]:
    tokenizer = CausalTokenizer.open(folder)
    eos_id = tokenizer.special_ids.get(_END) if tokenizer.eos_id is None else tokenizer.eos_id
    if eos_id is None:
        raise ModelError(f"{folder / _TOKENIZER} has no token {_END}: download the tokenizer again")
    return TokenizerJsonCutter(tokenizer), eos_id


def _open_sentencepiece(folder: Path, config: Mapping[str, Any]) -> tuple[PieceCutter, int]:
    """Raises ModelError if T5Tokenizer with `legacy` = false, which puts ▁ before a text, would cut differently: if the
    SentencePiece model does not treat ▁ as a space, as models normalized by `nmt_nfkc` do."""
    processor = read_sentencepiece(folder / SENTENCEPIECE_UNIGRAM, "a T5 model")
    if config.get("legacy") is False and processor.normalize("a▁ b") != processor.normalize("a b"):
        raise ModelError(
            f"tokenizer_config.json beside {folder / SENTENCEPIECE_UNIGRAM} says legacy = false, with which spaces "
            "before a text are cut otherwise; make a tokenizer.json with "
            "AutoTokenizer.from_pretrained(...).save_pretrained(...)"
        )
    ids = {
        processor.id_to_piece(piece_id): piece_id
        for piece_id in range(len(processor))
        if not (processor.is_control(piece_id) or processor.is_unknown(piece_id))
    }
    return SentencePieceCutter(processor, ids, processor.unk_id(), joins=True), processor.eos_id()


def _labels(cutter: PieceCutter) -> dict[str, str]:
    """The prefix of each language that a piece of the vocabulary names."""
    labels = (_LABEL.fullmatch(cutter.piece(piece_id)) for piece_id in cutter.by_frequency())
    return {match[1]: f"<2{match[1]}> " for match in labels if match}


def _tasks(config: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """The prefix of each pair of languages that config.json names."""
    tasks = config.get("task_specific_params") or {}
    prefixes = {}
    for name, settings in tasks.items() if isinstance(tasks, dict) else ():
        pair, prefix = _TASK.fullmatch(str(name)), settings.get("prefix") if isinstance(settings, dict) else None
        if pair and isinstance(prefix, str) and prefix:
            prefixes[pair[1], pair[2]] = prefix
    return prefixes
