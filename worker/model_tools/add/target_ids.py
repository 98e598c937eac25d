"""
The target ids that the head of a graph keeps.

A shared vocabulary has pieces that occur in the source language only, and each costs a row of the largest product of a
decoder step. A head over the pieces of target.spm leaves them out. It can no longer generate a character that
source.spm has and target.spm does not; that is rare, but possible, so the reduced head is an option.
"""

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worker.models.json_file import read_json

# Keys in config.json and generation_config.json of ids that the search feeds or forces.
_SPECIAL_KEYS = (
    "decoder_start_token_id",
    "eos_token_id",
    "pad_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
)


class HeadChoice(enum.StrEnum):
    """The values of `--head`."""

    FULL = "full"  # every id of the checkpoint
    TARGET = "target"  # the pieces of target.spm, and special ids


def target_ids(folder: Path) -> list[int]:
    """The ids of `HeadChoice.TARGET`, ascending; raise ModelError where the tokenizer cannot be read."""
    from worker.text.translation.marian_tokenizer import (
        MarianTokenizer,  # loads sentencepiece, which `models --help` does not need
    )

    ids = MarianTokenizer.open(folder).target_ids()
    for file in (folder / "config.json", folder / "generation_config.json"):
        if file.is_file():
            ids |= _special_ids(read_json(file))
    return sorted(ids)


def _special_ids(settings: Mapping[str, Any]) -> set[int]:
    values = (settings.get(key) for key in _SPECIAL_KEYS)
    listed = (value if isinstance(value, list) else [value] for value in values)
    return {token_id for ids in listed for token_id in ids if isinstance(token_id, int)}
