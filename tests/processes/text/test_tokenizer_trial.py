"""Slow regular expressions in a tokenizer.json are refused; those of published models are accepted."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import ModelError
from jobs.outcome import Failed, Ranking, Score
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.causal_checkpoints import write_causal_checkpoint
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.rerank.reranking import Reranker
from worker.engine.tasks.scoring import Scorer
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.admission import admit
from worker.providers.local_engines import LocalEngines
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.tokenizer_trial import try_tokenizer
from worker.warm_models import WarmModels

ABORTS = "(a+)+b"  # the number of ways doubles with each letter
TAKES_MINUTES = "a+a+b"  # from each start, the square of the number of letters that follow
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def with_expression(folder: Path, expression: str, place: str = "pre_tokenizer") -> Path:
    """Make the tokenizer of a folder split, or replace, by this regular expression first."""
    file = folder / "tokenizer.json"
    tokenizer: dict[str, Any] = json.loads(file.read_text())
    pattern = {"Regex": expression}
    if place == "normalizer":
        tokenizer["normalizer"] = {"type": "Replace", "pattern": pattern, "content": " "}
    else:
        split = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
        tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, tokenizer["pre_tokenizer"]]}
    file.write_text(json.dumps(tokenizer))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_causal_checkpoint(tmp_path / "tiny", "qwen2")


@pytest.mark.parametrize("place", ["pre_tokenizer", "normalizer"])
def test_an_expression_that_aborts_on_a_run_of_letters_is_refused(folder, place):
    with pytest.raises(ModelError, match=r"tiny/tokenizer\.json .*regular expression.*aborts"):
        try_tokenizer(with_expression(folder, ABORTS, place))


def test_an_expression_that_takes_minutes_is_refused_at_the_time_limit(folder):
    with pytest.raises(ModelError, match=r"regular expression.*1 s .*4,000"):
        try_tokenizer(with_expression(folder, TAKES_MINUTES), deadline_s=1.0)


def test_the_expressions_of_published_models_are_accepted(folder):
    try_tokenizer(with_expression(folder, LLAMA_3))


def test_such_an_expression_is_refused_by_models_add_and_by_submit(folder, tmp_path):
    added = Path(add_model(Request(source=str(folder)), tmp_path / "models").path)
    bomb = with_expression(Path(shutil.copytree(folder, tmp_path / "bomb")), ABORTS)

    with pytest.raises(ModelError, match="aborts"):
        add_model(Request(source=str(bomb)), tmp_path / "models")
    with_expression(added, ABORTS)
    with pytest.raises(ModelError, match="aborts"):
        admit(Task.SCORE, "tiny", tmp_path / "models", ScoreOptions())


def test_a_text_on_which_an_expression_aborts_fails_without_affecting_others(folder, tmp_path):
    models_dir = tmp_path / "models"
    add_model(Request(source=str(with_expression(folder, "(z+)+b"))), models_dir)
    engines = LocalEngines(WarmModels(models_dir, threads=1))
    bad = "z" * 60

    with pytest.raises(ModelError, match="cannot tokenize"):
        CausalTokenizer.open(folder).encode(bad)
    spec = admit(Task.SCORE, "tiny", models_dir, ScoreOptions())
    scores = engines.of_causal(spec, Scorer).score(["hello", bad], ScoreOptions(), RunContext()).outcomes
    assert [type(score) for score in scores] == [Score, Failed]
    query = json.dumps({"query": "hello", "candidates": [{"id": "1", "text": bad}, {"id": "2", "text": "hello"}]})
    (ranking,) = engines.of_causal(spec, Reranker).rerank([query], RerankOptions(), RunContext()).outcomes
    assert isinstance(ranking, Ranking)
    assert "cannot tokenize" in json.dumps([str(one) for one in ranking.candidates])
