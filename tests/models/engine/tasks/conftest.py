"""The bundled translation model, opened once, and a translator over a tiny model."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.models.engine.tasks.texts import WordTokenizer
from tests.places import DEMO_MODEL
from tools.demo.grammar import unseen_bulletins
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.tasks.translation import Translator
from worker.text.translation.marian_tokenizer import MarianTokenizer


@pytest.fixture(scope="session")
def demo() -> SimpleNamespace:
    """The bundled model, its tokenizer, and pairs of sentences that it was not trained on."""
    bulletins = [pair for bulletin in unseen_bulletins(8, seed=22) for pair in bulletin.sentences]
    return SimpleNamespace(
        model=NativeSeq2Seq.open(DEMO_MODEL), tokenizer=MarianTokenizer.open(DEMO_MODEL), pairs=bulletins
    )


@pytest.fixture
def tokenizer() -> WordTokenizer:
    return WordTokenizer()


@pytest.fixture
def translator(tiny: Any, tokenizer: WordTokenizer) -> Translator:
    return Translator(tiny.model, tokenizer)
