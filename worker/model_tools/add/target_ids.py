"""
Which target ids the head of a graph keeps.

A shared vocabulary holds pieces that only the source language is cut into, and each costs a row of the largest product
of a decoder step. A head over the pieces of target.spm leaves them out. What it can no longer say is a character that
target.spm does not know and source.spm does: next to nothing, but not nothing, so this is an option.
"""

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worker.models.json_file import read_json

# Ids that the search feeds or forces, in the words of config.json and generation_config.json.
_SPECIAL_KEYS = (
    "decoder_start_token_id",
    "eos_token_id",
    "pad_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
)


class HeadChoice(enum.StrEnum):
    """What `--head` can be."""

    FULL = "full"  # every id of the checkpoint
    TARGET = "target"  # the ids of the pieces of target.spm, and special ones


def target_ids(folder: Path) -> list[int]:
    """The ids that a translation can contain, ascending; raise ModelError where the tokenizer cannot be read."""
    from worker.text.marian_tokenizer import (
        MarianTokenizer,  # loads sentencepiece, which `models --help` has no use for
    )

    ids = MarianTokenizer.open(folder).target_ids()
    for file in (folder / "config.json", folder / "generation_config.json"):
        if file.is_file():
            ids |= _special_ids(read_json(file))
    return sorted(ids)


def _special_ids(said: Mapping[str, Any]) -> set[int]:
    values = (said.get(key) for key in _SPECIAL_KEYS)
    listed = (value if isinstance(value, list) else [value] for value in values)
    return {token_id for ids in listed for token_id in ids if isinstance(token_id, int)}
