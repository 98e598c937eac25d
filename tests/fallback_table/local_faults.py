"""How providers fail that compute in the worker's process: their model or their library is gone, or broken."""

import shutil
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from jobs.tasks.task import Task
from tests.fallback_table.fault import LLAMACPP, ONNX_FIRST, Fault
from tests.openai_stand_in import OpenAIStandIn
from tests.scripted_api import says
from worker.engine.causal.llamacpp import library
from worker.engine.causal.native.reader import PackedReader

OPENAI_WELL = (OpenAIStandIn(),)


def remove(name: str) -> Any:
    def prepare(_: pytest.MonkeyPatch, models: Path) -> None:
        shutil.rmtree(models / name)

    return prepare


def change(file: str) -> Any:
    """Another number in the middle of a file, as a damaged disk leaves it."""

    def prepare(_: pytest.MonkeyPatch, models: Path) -> None:
        content = bytearray((models / file).read_bytes())
        content[len(content) // 2] ^= 0xFF
        (models / file).write_bytes(content)

    return prepare


def delete(file: str) -> Any:
    def prepare(_: pytest.MonkeyPatch, models: Path) -> None:
        (models / file).unlink()

    return prepare


def break_engine(patch: pytest.MonkeyPatch, _: Path) -> None:
    def read(*_arguments: Any, **_named: Any) -> NoReturn:
        raise RuntimeError("Non-zero status code returned while running MatMul")

    patch.setattr(PackedReader, "read", read)


def without_llama_cpp(patch: pytest.MonkeyPatch, _: Path) -> None:
    library.llama_cpp.cache_clear()
    patch.setitem(sys.modules, "llama_cpp", None)


def onnx(what: str, code: str, prepare: Any, **values: Any) -> Fault:
    given = {"order": ONNX_FIRST, "model": "lm", "answered": "openai", "server": OPENAI_WELL} | values
    return Fault(what=what, code=code, prepare=prepare, **given)


LOCAL_FAULTS = [
    onnx("the model's folder is gone", "no-model", remove("lm")),
    onnx("a file of the model is gone", "open-error", delete("lm/tokenizer.json")),
    onnx("the weights are damaged, or another model's", "open-error", change("lm/weights.data")),
    onnx("the engine breaks, whatever the document", "engine-error", break_engine),
    onnx(
        "the model is not on this machine",
        "skipped",
        lambda _patch, _models: None,
        model="m",
    ),
    Fault(
        what="llama-cpp-python is not installed",
        code="open-error",
        order=LLAMACPP,
        prepare=without_llama_cpp,
    ),
    Fault(what="the GGUF file is gone", code="no-model", order=LLAMACPP, prepare=remove("quantized")),
    Fault(what="the GGUF file is damaged", code="open-error", order=LLAMACPP, prepare=change("quantized/model.gguf")),
    Fault(what="is to translate", code="skipped", order=LLAMACPP, task=Task.TRANSLATE),
]

DOWN = (says({"error": {"message": "the model is overloaded"}}, 500),)
NOBODY = [
    onnx("no provider is left", "unanswered", remove("lm"), answered="", failed=8, server=DOWN),
    onnx(
        "no provider is left",
        "unanswered",
        remove("own-en-zh"),
        answered="",
        failed=8,
        server=DOWN,
        task=Task.TRANSLATE,
        model="own-en-zh",
    ),
    onnx("no provider is left", "kept-order", remove("lm"), answered="none", server=DOWN, task=Task.RERANK),
    Fault(what="HTTP 500, with `--no-fallback`", code="unanswered", answered="", failed=8, server=DOWN, fallback=False),
]
