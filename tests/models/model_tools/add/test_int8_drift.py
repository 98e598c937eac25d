"""`models add` in int8: the distance from fp32 is measured and stored, and leaves nothing behind."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.causal_checkpoints import write_causal_checkpoint
from tests.checkpoints import write_marian_checkpoint
from tests.cross_encoder_checkpoints import write_cross_encoder_checkpoint
from tests.seq2seq_checkpoints import (
    write_bart_tokenizer,
    write_m2m100_tokenizer,
    write_mbart50_tokenizer,
    write_model,
    write_t5_tokenizer,
)
from worker.graphs import embeddings
from worker.graphs.precision import Precision
from worker.model_tools.add import drift_sample, int8_drift
from worker.model_tools.add.add import Added, Request, add_model
from worker.model_tools.add.target_ids import HeadChoice
from worker.model_tools.verify import causal, verify
from worker.models.drift import RelevanceDrift
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder
from worker.text.segments import segment

Add = Callable[..., Added]


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def add(models_dir: Path, tmp_path: Path) -> Add:
    """Adds the same tiny checkpoint."""
    checkpoint = write_causal_checkpoint(tmp_path / "tiny", "llama")

    def call(source: Path = checkpoint, **options: Any) -> Added:
        return add_model(Request(source=str(source), **options), models_dir)

    return call


def test_the_drift_of_a_model_in_int8_is_measured_and_stored(add, models_dir):
    added = add(precision=Precision.INT8)

    drift = added.drift
    assert drift is not None
    assert (added.drift_note, drift) == (None, Manifest.read(models_dir / "tiny-int8").drift)
    assert 1000 < drift.num_tokens <= 2000
    assert 0.0 < drift.mean < drift.worst
    assert drift.perplexity / drift.perplexity_fp32 - 1 == pytest.approx(drift.perplexity_change, abs=0.01)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP16])
def test_other_precisions_have_no_drift(add, precision):
    added = add(precision=precision)

    assert (added.drift, added.drift_note) == (None, None)


def test_the_graphs_in_fp32_are_gone_afterwards(add, models_dir):
    add(precision=Precision.INT8)

    assert os.listdir(models_dir) == ["tiny-int8"]
    assert {file.name for file in (models_dir / "tiny-int8").iterdir()} == {
        "body.onnx", "config.json", "head.onnx", "kvjobs.json", "tokenizer.json", "tokenizer_config.json",
        "weights.data",
    }  # fmt: skip


def test_an_interrupt_while_it_is_measured_leaves_nothing_behind(add, models_dir, monkeypatch):
    def interrupt(*_: Any) -> None:
        assert len(list(models_dir.glob(".adding-*/scratch/weights.data"))) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(causal, "score_documents", interrupt)

    with pytest.raises(KeyboardInterrupt):
        add(precision=Precision.INT8)
    assert os.listdir(models_dir) == []


def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8_drift, "usable_memory", lambda: 1024.0)


def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 1))


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(verify, "build_fp32", fail)


@pytest.mark.parametrize("tied", [True, False])
def test_room_is_asked_for_what_the_graphs_in_fp32_take(add, tmp_path, monkeypatch, tied):
    asked = []
    monkeypatch.setattr(embeddings, "LEAST", 0)
    monkeypatch.setattr(int8_drift, "_check_room", lambda needed, _: asked.append(needed))
    checkpoint = write_causal_checkpoint(tmp_path / "some", "llama", vocab_size=5000, tied=tied)
    add(checkpoint, precision=Precision.INT8)

    taken = sum(file.stat().st_size for file in Path(add(checkpoint).path).iterdir())

    assert taken <= asked[0] <= 1.2 * taken  # scales, and pages that tensors begin at


@pytest.mark.parametrize(("prevent", "word"), [(no_memory, "memory"), (no_disk, "disk"), (full_disk, "No space left")])
def test_a_model_is_added_where_its_drift_cannot_be_measured(add, models_dir, monkeypatch, prevent, word):
    prevent(monkeypatch)

    added = add(precision=Precision.INT8)

    assert added.drift is None
    assert word in (added.drift_note or "")
    assert Manifest.read(models_dir / "tiny-int8").drift is None
    assert os.listdir(models_dir) == ["tiny-int8"]


def test_a_model_has_the_same_revision_whether_its_drift_was_measured_or_not(add, models_dir, monkeypatch):
    add(precision=Precision.INT8, name="measured")
    no_memory(monkeypatch)
    add(precision=Precision.INT8, name="not")

    one, other = (ModelFolder(name, models_dir / name) for name in ("measured", "not"))
    assert one.revision() == other.revision()


def test_a_copy_of_a_model_keeps_its_drift(add, models_dir, tmp_path):
    first = add(precision=Precision.INT8)
    moved = (models_dir / "tiny-int8").rename(tmp_path / "moved")

    assert add(moved).drift == first.drift


FAMILIES = {
    "m2m_100": write_m2m100_tokenizer,
    "mbart": write_mbart50_tokenizer,
    "t5": write_t5_tokenizer,
    "bart": write_bart_tokenizer,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_translation_model_is_measured_on_the_translations_of_its_graphs_in_fp32(add, tmp_path, family):
    added = add(write_model(tmp_path / "source", family, FAMILIES[family]), precision=Precision.INT8)

    drift = added.drift
    assert drift is not None, added.drift_note
    assert (drift.num_languages > 5) == (family in ("m2m_100", "mbart"))  # the others are not told a source language
    assert drift.num_tokens > 100
    assert 0.0 < drift.mean < drift.worst


@pytest.mark.parametrize(("name", "first"), [("opus-mt-de-en", "Der"), ("opus-mt-en-de", "The"), ("mine", "The")])
def test_an_opus_model_translates_the_language_of_its_name(tmp_path, monkeypatch, name, first):
    seen: list[str] = []
    monkeypatch.setattr(drift_sample, "segment", lambda text, language: seen.append(text) or segment(text, language))
    source = write_marian_checkpoint(tmp_path / name)

    added = add_model(
        Request(source=str(source), precision=Precision.INT8, head=HeadChoice.FULL, name="tiny"), tmp_path / "models"
    )

    assert added.drift is not None
    assert seen[0].startswith(first)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_a_cross_encoder_is_measured_by_its_scores_and_orders(add, models_dir, tmp_path, family):
    source = write_cross_encoder_checkpoint(tmp_path / "pairs", family)

    added = add(source, precision=Precision.INT8)

    drift = added.drift
    assert isinstance(drift, RelevanceDrift), added.drift_note
    assert drift == Manifest.read(models_dir / "pairs-int8").drift
    assert (drift.num_queries, drift.num_pairs) == (20, 80)
    assert 0.0 < drift.mean < drift.worst
    assert drift.num_reordered < 20


def test_a_large_model_reads_fewer_tokens():
    assert int8_drift.max_tokens(10**8) == int8_drift.max_tokens(10**9) == 2000
    assert int8_drift.max_tokens(2 * 10**9) == 1000
    assert int8_drift.max_tokens(10**12) == 200
