"""Which model may do which task, and what is said where it may not."""

from pathlib import Path

import pytest

from jobs.errors import NotFoundError, SpecError
from jobs.spec import Bos, RerankOptions, ScoreOptions, Task, TranslateOptions, Window
from tests.checkpoints import write_marian_checkpoint
from worker.models import registry
from worker.models.add import Request, add_model
from worker.models.admission import admit


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    add_model(Request(source=str(write_marian_checkpoint(tmp_path / "opus-tiny"))), tmp_path / "models")
    return tmp_path / "models"


def test_a_translation_model_translates(models_dir: Path) -> None:
    spec = admit(Task.TRANSLATE, "opus-tiny", models_dir, TranslateOptions())

    assert (spec.task, spec.model, spec.options) == (Task.TRANSLATE, "opus-tiny", TranslateOptions())
    assert spec.model_revision == registry.find_model("opus-tiny", models_dir).revision()


def test_a_translation_model_scores_pairs(models_dir: Path) -> None:
    spec = admit(Task.SCORE, "opus-tiny", models_dir, ScoreOptions(token_scores=True))

    assert spec.options == ScoreOptions(pairs=True, token_scores=True)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("window", ScoreOptions(window=Window.DISJOINT)),
        ("max-length", ScoreOptions(max_length=8)),
        ("stride", ScoreOptions(stride=8)),
        ("bos", ScoreOptions(bos=Bos.EOS)),
    ],
)
def test_pairs_have_no_windows(models_dir: Path, name: str, options: ScoreOptions) -> None:
    with pytest.raises(SpecError, match=f"opus-tiny is a translation model, which scores .*: leave --{name} out"):
        admit(Task.SCORE, "opus-tiny", models_dir, options)


def test_a_language_that_the_model_does_not_know_is_refused_for_pairs_too(models_dir: Path) -> None:
    with pytest.raises(SpecError, match="fra"):
        admit(Task.SCORE, "opus-tiny", models_dir, ScoreOptions(target_language="fra"))


def test_reranking_takes_a_language_model(models_dir: Path) -> None:
    message = r"the task rerank needs a causal language model, and opus-tiny is a translation model: .* bundled demo-lm"
    with pytest.raises(SpecError, match=message):
        admit(Task.RERANK, "opus-tiny", models_dir, RerankOptions())


def test_without_a_name_the_bundled_model_of_the_task_is_meant(
    models_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.BUNDLED, "demo-lm", tmp_path / "none")

    assert admit(Task.TRANSLATE, None, models_dir, TranslateOptions()).model == "demo-en-zh"
    with pytest.raises(NotFoundError, match=r"bundled model demo-lm is not in this installation .*: install kvjobs"):
        admit(Task.SCORE, None, models_dir, ScoreOptions())
