"""Every file that is opened in a model's folder, while the model is loaded, belongs to its revision and its stamps."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.checkpoints.gguf_file import write_gguf
from jobs.spec import JobSpec
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.causal_checkpoints import write_causal_checkpoint
from tests.causal_exports import Export, write_letters
from tests.checkpoints import write_marian_checkpoint
from tests.cross_encoder_checkpoints import write_cross_encoder_checkpoint
from tests.seq2seq_checkpoints import (
    write_bart_tokenizer,
    write_m2m100_tokenizer,
    write_mbart25_tokenizer,
    write_mbart50_tokenizer,
    write_model,
    write_nllb_tokenizer,
    write_pegasus_tokenizer,
    write_t5_tokenizer,
)
from worker.engine.causal.open import open_chat_tokenizer
from worker.engine.runtime.device import CPU_PROVIDER
from worker.loaded_model import LoadedCausal, load_model
from worker.model_tools.add.add import Request, add_model
from worker.models.model_folder import ModelFolder

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"

_opened: list[Path] | None = None  # while files are watched


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _opened is not None and event == "open" and isinstance(arguments[0], str):
        _opened.append(Path(arguments[0]))


sys.addaudithook(_note)  # for good: a hook cannot be removed


@contextmanager
def opened_files() -> Iterator[list[Path]]:
    """The files that Python opens in the block; graphs and GGUF files, which libraries open, are not among them."""
    global _opened
    _opened = []
    try:
        yield _opened
    finally:
        _opened = None


def seq2seq(family: str, write_tokenizer: Callable[[Path, bytes], int]) -> Callable[[Path], Path]:
    return lambda folder: write_model(folder, family, write_tokenizer)


def with_template(write: Callable[[Path], Path]) -> Callable[[Path], Path]:
    def both(folder: Path) -> Path:
        source = write(folder)
        ((source if source.is_dir() else source.parent) / "chat_template.jinja").write_text(TEMPLATE)
        return source

    return both


def causal_export(folder: Path) -> Path:
    Export().write(folder, external="all weights.bin", vocab_size=61)
    write_letters(folder)
    return folder


def gguf(folder: Path) -> Path:
    write_gguf(write_causal_checkpoint(folder, "llama"), folder / "model.gguf", "f32", pre="gpt-2")
    return folder / "model.gguf"


# Each kind of model, and each loader of a tokenizer.
MODELS: dict[str, Callable[[Path], Path]] = {
    "marian": lambda folder: write_marian_checkpoint(folder),
    "marian, two vocabularies": lambda folder: write_marian_checkpoint(folder, target_vocab_size=64),
    "m2m_100": seq2seq("m2m_100", write_m2m100_tokenizer),
    "nllb": seq2seq("m2m_100", write_nllb_tokenizer),
    "mbart-50": seq2seq("mbart", write_mbart50_tokenizer),
    "mbart-25": seq2seq("mbart", write_mbart25_tokenizer),
    "bart": seq2seq("bart", write_bart_tokenizer),
    "pegasus": seq2seq("pegasus", write_pegasus_tokenizer),
    "t5": seq2seq("t5", write_t5_tokenizer),
    "causal": with_template(lambda folder: write_causal_checkpoint(folder, "qwen2")),
    "causal export": with_template(causal_export),
    "causal of a GGUF file": gguf,
    "cross-encoder": lambda folder: write_cross_encoder_checkpoint(folder, "bert"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_every_file_that_a_loader_opens_is_in_the_revision(kind: str, tmp_path: Path) -> None:
    """One that is not could be replaced, and a warm worker, the memories and a second submit would not notice."""
    source = MODELS[kind](tmp_path / "source")
    folder = ModelFolder("m", Path(add_model(Request(source=str(source), name="m"), tmp_path / "models").path))
    spec = JobSpec(task=Task.SCORE, model="m", model_revision=folder.revision(), options=ScoreOptions())

    with opened_files() as opened:
        model = load_model(spec, tmp_path / "models", 1, [CPU_PROVIDER])
        if isinstance(model, LoadedCausal):
            open_chat_tokenizer(folder.path, model.tokenizer)

    names = {file.relative_to(folder.path).as_posix() for file in opened if file.is_relative_to(folder.path)}
    for name in names:
        (folder.path / name).touch()  # those that were looked for in vain
    assert "config.json" in names
    assert names <= folder.stamps().keys()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("causal", "chat_template.jinja"),
        ("m2m_100", "sentencepiece.bpe.model"),
        ("t5", "spiece.model"),
        ("causal export", "all weights.bin"),
    ],
)
def test_a_model_that_differs_in_one_such_file_is_another_model(kind: str, name: str, tmp_path: Path) -> None:
    folder = MODELS[kind](tmp_path / "one")
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    assert ModelFolder("one", folder).revision() == ModelFolder("other", other).revision()

    before = ModelFolder("other", other).stamps()
    (other / name).write_bytes((other / name).read_bytes() + b" ")

    assert ModelFolder("one", folder).revision() != ModelFolder("other", other).revision()
    assert {file for file, stamp in ModelFolder("other", other).stamps().items() if before[file] != stamp} == {name}
