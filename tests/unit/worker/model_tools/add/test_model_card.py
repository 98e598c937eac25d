"""What the card of a checkpoint says of its training."""

from pathlib import Path

import pytest

from worker.model_tools.add.model_card import CARD, has_guided_alignment


@pytest.mark.parametrize(
    ("card", "is_guided"),
    [
        ("---\nlicense: apache-2.0\n---\n\n### opus-mt-tr-en\n\n*  dataset: opus\n* model: transformer-align\n", True),
        ("*  model: transformer-align\r\n* source language(s): jpn\r\n", True),
        ("* model: transformer-big-align\n", True),
        ("* model: transformer\n* pre-processing: normalization + SentencePiece\n", False),
        ("* model: transformer-big\n", False),
        ("No model: transformer-align is among these.\n", False),
        ("", False),
    ],
)
def test_cards_of_opus_mt_say_whether_a_head_was_trained_to_align(tmp_path: Path, card: str, is_guided: bool) -> None:
    (tmp_path / CARD).write_bytes(card.encode())

    assert has_guided_alignment(tmp_path) is is_guided


def test_a_checkpoint_without_a_card_is_not_known_to_be_guided(tmp_path: Path) -> None:
    assert not has_guided_alignment(tmp_path)
