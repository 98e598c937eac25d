"""Which words a model writes always in the same way: some of the bundled one, none of a model without training."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.places import DEMO_MODEL
from tests.seq2seq_checkpoints import FAMILIES
from tools.demo.lexicon import DAYS
from worker.model_tools.add import add
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.add.stand_in_trial import try_stand_ins
from worker.models.manifest import Manifest
from worker.text.marks.known_words import NO_STAND_INS


def test_the_bundled_model_has_what_the_trial_finds() -> None:
    found = try_stand_ins(DEMO_MODEL)

    assert found == Manifest.read(DEMO_MODEL).stand_ins
    assert found.numbers
    assert ("Whitby", "惠特比") in [(name.form, name.written) for name in found.names]
    assert {(day.form, day.written) for day in found.days} == set(DAYS)


@pytest.mark.parametrize("family", ["m2m100", "t5"])
def test_a_model_that_was_not_trained_has_none(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = FAMILIES[family](tmp_path / "checkpoint")
    monkeypatch.setattr(add, "try_stand_ins", found := Mock(side_effect=try_stand_ins))

    added = add_model(Request(source=str(checkpoint)), tmp_path / "models")

    assert found.call_count == 1
    assert Manifest.read(Path(added.path)).stand_ins == NO_STAND_INS
