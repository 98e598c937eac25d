"""`python -m bench.families` on tiny models: it runs, and kvjobs in fp32 gives the tokens of transformers."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from bench import families
from bench.harness.rows import Row

pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("default")]


@pytest.mark.parametrize("family", ["mt5", "bloom"])  # one that translates, one that continues
def test_a_family_is_compared_with_transformers_and_its_tokens_are_the_same(
    family: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: list[Row] = []
    compared = families.compared
    monkeypatch.setattr(families, "compared", lambda *given: kept.extend(rows := list(compared(*given))) or rows)
    sizes = ["--segments", "4", "--prompts", "4", "--new", "6", "--repeats", "1", "--size", "tiny"]

    families.main(["--only", f"{family},transformers-fp32", "--precision", "fp32", *sizes, "--json"])

    rows = json.loads(capsys.readouterr().out)
    assert [(row["work"], row["peer"]) for row in rows] == [(f"{family}-fp32-greedy", "transformers-fp32")]
    assert all(row["ours"] > 0 and row["theirs"] > 0 and row["cpu_ratio"] > 0 for row in rows)
    assert [row.our_equal for row in kept] == [1.0]
