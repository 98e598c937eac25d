"""Tokenizers of made-up translation models."""

import json
from pathlib import Path
from random import Random

import pytest

from bench.checkpoints.family_shapes import FAMILIES, SEQ2SEQ_SIZES, TINY
from bench.checkpoints.family_tokenizers import write_family_tokenizer
from worker.text.translation.translation_tokenizer import open_translation_tokenizer

SIZE = SEQ2SEQ_SIZES[TINY].vocab_size


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.is_seq2seq])
def test_a_made_up_tokenizer_is_opened_and_its_ids_are_those_of_the_model(tmp_path: Path, family: str) -> None:
    config = FAMILIES[family].config(TINY)
    write_family_tokenizer(tmp_path, family, SIZE)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family, **config}), encoding="utf-8")

    tokenizer = open_translation_tokenizer(tmp_path)
    ids = tokenizer.draw(Random(1), 100)

    assert tokenizer.eos_id == ids[-1] == config["eos_token_id"]
    assert len(set(ids)) > 50
    assert max(ids) < SIZE
    assert tokenizer.decode(ids)
