"""Which model can do which task, and the message if it cannot."""

import shutil
from pathlib import Path

import pytest

from jobs.errors import ModelError, NotFoundError, SpecError
from jobs.tasks.rerank import Method, RerankOptions
from jobs.tasks.score import Bos, ScoreOptions, Window
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.causal_checkpoints import write_causal_checkpoint
from tests.checkpoints import write_marian_checkpoint
from tests.models.bigrams import write_export
from tests.places import GOLDEN
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.admission import admit, advise_departures, advise_precision, advise_queue
from worker.models import registry


@pytest.fixture(scope="module")
def models_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A models folder with the translation model opus-tiny; tests must not change it."""
    folder = tmp_path_factory.mktemp("seq2seq")
    add_model(Request(source=str(write_marian_checkpoint(folder / "opus-tiny"))), folder / "models")
    return folder / "models"


def test_a_translation_model_translates(models_dir: Path) -> None:
    spec = admit(Task.TRANSLATE, "opus-tiny", models_dir, TranslateOptions())

    assert (spec.task, spec.model, spec.options) == (Task.TRANSLATE, "opus-tiny", TranslateOptions())
    assert spec.model_revision == registry.find_model("opus-tiny", models_dir).revision()


def test_more_translations_than_the_model_keeps_hypotheses_are_refused(models_dir: Path) -> None:
    """Such a job could only be paused, and no `resume` would help."""
    beams = open_seq2seq_model(models_dir / "opus-tiny").generation.num_beams

    assert admit(Task.TRANSLATE, "opus-tiny", models_dir, TranslateOptions(n_best=beams))
    with pytest.raises(SpecError, match=rf"n_best is {beams + 1},.*keeps {beams}:.*--beam-size {beams + 1}"):
        admit(Task.TRANSLATE, "opus-tiny", models_dir, TranslateOptions(n_best=beams + 1))
    assert admit(Task.TRANSLATE, "opus-tiny", models_dir, TranslateOptions(n_best=9, beam_size=9))


def test_an_export_is_refused_alignments_and_a_model_with_native_graphs_is_not(
    tmp_path: Path, models_dir: Path
) -> None:
    folder = tmp_path / "exported"
    folder.mkdir()
    for file in (models_dir / "opus-tiny").iterdir():
        if file.suffix in (".json", ".spm") and file.name != "kvjobs.json":
            shutil.copy(file, folder)
    for file in ("config.json", "generation_config.json", "encoder_model.onnx", "decoder_model_merged.onnx"):
        shutil.copy(GOLDEN / "tiny-swish-tied" / file, folder)

    assert admit(Task.TRANSLATE, "opus-tiny", models_dir, TranslateOptions(alignments=True))
    with pytest.raises(SpecError, match=r"exported is an export,.*--alignments"):
        admit(Task.TRANSLATE, "exported", tmp_path, TranslateOptions(alignments=True))


def test_a_translation_model_scores_pairs(models_dir: Path) -> None:
    spec = admit(Task.SCORE, "opus-tiny", models_dir, ScoreOptions(token_scores=True, max_length=8))

    assert spec.options == ScoreOptions(pairs=True, token_scores=True, max_length=8)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("window", ScoreOptions(window=Window.DISJOINT)),
        ("stride", ScoreOptions(stride=8)),
        ("bos", ScoreOptions(bos=Bos.EOS)),
    ],
)
def test_options_for_windows_are_refused_for_pairs(models_dir: Path, name: str, options: ScoreOptions) -> None:
    with pytest.raises(SpecError, match=f"opus-tiny .*translation.*--{name} "):
        admit(Task.SCORE, "opus-tiny", models_dir, options)


def test_an_unknown_target_language_is_refused_for_pairs_too(models_dir: Path) -> None:
    with pytest.raises(SpecError, match="fra"):
        admit(Task.SCORE, "opus-tiny", models_dir, ScoreOptions(target_language="fra"))


def test_reranking_needs_a_causal_language_model(models_dir: Path) -> None:
    message = (
        r"the task rerank needs a causal language model or a cross-encoder, and opus-tiny is .*: .* bundled demo-lm"
    )
    with pytest.raises(SpecError, match=message):
        admit(Task.RERANK, "opus-tiny", models_dir, RerankOptions())


def test_without_a_name_the_bundled_model_of_the_task_is_used(
    models_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.BUNDLED, "demo-lm", tmp_path / "none")

    assert admit(Task.TRANSLATE, None, models_dir, TranslateOptions()).model == "demo-en-zh"
    with pytest.raises(NotFoundError, match=r"demo-lm .*: install"):
        admit(Task.SCORE, None, models_dir, ScoreOptions())


# --- causal language models


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_causal_checkpoint(tmp_path_factory.mktemp("causal") / "tiny", "qwen2", max_positions=64)


@pytest.fixture(scope="module")
def causal_dir(checkpoint: Path) -> Path:
    """A models folder with the causal language model tiny; tests must not change it."""
    add_model(Request(source=str(checkpoint)), checkpoint.parent / "models")
    return checkpoint.parent / "models"


@pytest.fixture
def own_causal_dir(causal_dir: Path, tmp_path: Path) -> Path:
    """A copy of this models folder that a test may change."""
    return Path(shutil.copytree(causal_dir, tmp_path / "models"))


@pytest.mark.parametrize(
    ("task", "options"),
    [
        (Task.SCORE, ScoreOptions(max_length=64, bos=Bos.EOS)),
        (Task.RERANK, RerankOptions(method=Method.QUERY_LIKELIHOOD)),
    ],
)
def test_a_language_model_scores_texts_and_reranks(causal_dir: Path, task: Task, options: ScoreOptions) -> None:
    spec = admit(task, "tiny", causal_dir, options)

    assert (spec.model, spec.options) == ("tiny", options)


def test_whether_pairs_are_scored_follows_from_the_kind_of_the_model(causal_dir: Path) -> None:
    assert admit(Task.SCORE, "tiny", causal_dir, ScoreOptions(pairs=True)).options == ScoreOptions(pairs=False)


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        (
            Task.TRANSLATE,
            TranslateOptions(),
            "the task translate needs a translation model, and tiny is a causal language model: .* demo-en-zh",
        ),
        (Task.SCORE, ScoreOptions(max_length=65), "max_length is 65, .* at most 64"),
        (Task.RERANK, RerankOptions(max_length=65), "max_length is 65, .* at most 64"),
        (Task.SCORE, ScoreOptions(stride=64), "stride is 64 and a window of this model has 64"),
        (Task.SCORE, ScoreOptions(bos=Bos.BOS), "no BOS"),
        (Task.SCORE, ScoreOptions(target_language="fra"), "tiny is a causal language model, which has none"),
    ],
)
def test_options_that_a_language_model_cannot_serve_are_refused(
    causal_dir: Path, task: Task, options: ScoreOptions, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        admit(task, "tiny", causal_dir, options)


def test_a_tokenizer_of_another_model_is_refused(own_causal_dir: Path) -> None:
    config = own_causal_dir / "tiny" / "tokenizer.json"
    config.write_text(config.read_text().replace('"snow": 264', '"snow": 9000'))

    with pytest.raises(ModelError, match=r"tokenizer\.json .*9,000.*300"):
        admit(Task.SCORE, "tiny", own_causal_dir, ScoreOptions())


def test_fp16_belongs_to_the_gpu_queue_and_fp32_to_the_cpu_queue(own_causal_dir: Path, checkpoint: Path) -> None:
    add_model(Request(source=str(checkpoint), precision=Precision.FP16), own_causal_dir)

    assert "is for GPUs" in (advise_queue("tiny-fp16", own_causal_dir, "cpu") or "")
    assert advise_queue("tiny-fp16", own_causal_dir, "gpu") is None
    assert advise_queue("tiny", own_causal_dir, "cpu") is None
    with pytest.raises(SpecError, match=r"tiny .*fp32.*--precision fp16.*--queue cpu"):
        advise_queue("tiny", own_causal_dir, "gpu")


def test_a_model_in_int8_comes_with_advice_to_verify_it(own_causal_dir: Path, checkpoint: Path) -> None:
    add_model(Request(source=str(checkpoint), precision=Precision.INT8), own_causal_dir)
    rough = admit(Task.SCORE, "tiny-int8", own_causal_dir, ScoreOptions())

    assert "kvjobs models verify tiny-int8 --sample CORPUS" in (advise_precision(rough, own_causal_dir) or "")
    assert advise_precision(admit(Task.SCORE, "tiny", own_causal_dir, ScoreOptions()), own_causal_dir) is None


def test_departures_of_an_export_from_its_configuration_are_reported_at_submit(
    own_causal_dir: Path, tmp_path: Path
) -> None:
    export = write_export(tmp_path / "export", model_type="mistral", sliding_window=16)
    add_model(Request(source=str(export)), own_causal_dir)

    for name in (str(export), "export"):
        (sentence,) = advise_departures(admit(Task.SCORE, name, own_causal_dir, ScoreOptions()), own_causal_dir)
        assert sentence.startswith(
            f"Model {name} reads at most 16 tokens at once: config.json asks for sliding_window = 16"
        )
    with pytest.raises(SpecError, match=r"max_length is 17.*16 tokens"):
        admit(Task.SCORE, "export", own_causal_dir, ScoreOptions(max_length=17))
    assert advise_departures(admit(Task.SCORE, "tiny", own_causal_dir, ScoreOptions()), own_causal_dir) == []
    assert advise_departures(admit(Task.TRANSLATE, None, own_causal_dir, TranslateOptions()), own_causal_dir) == []
