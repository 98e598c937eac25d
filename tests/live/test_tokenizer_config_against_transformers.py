"""The effect of the files beside tokenizer.json: the tokenizers of kvjobs and transformers on the same texts."""

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="transformers is not installed (pip install '.[train]')")

from tests.golden.make_tokenizer_config_golden import ids_of
from tests.tokenizer_configs import CASES, TEXTS, write_case
from worker.text.causal_tokenizer import CausalTokenizer

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("name", CASES)
def test_ids_equal_those_of_transformers(tmp_path: Path, name: str) -> None:
    folder = write_case(tmp_path / "model", name)

    tokenizer = CausalTokenizer.open(folder)

    assert [tokenizer.encode(text).ids for text in TEXTS] == ids_of(folder)
