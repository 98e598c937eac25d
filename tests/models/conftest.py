"""Fixtures for the tiny models; each model is opened or built once per session."""

import json
import shutil
from pathlib import Path

import pytest

from tests.places import GOLDEN
from tests.tiny_models import FILES, Case, OpenKV, OpenTiny, TinyExport, TinyNative, build_kv
from worker.engine.seq2seq.exported.model import ExportedSeq2Seq
from worker.graphs.precision import Precision


@pytest.fixture(scope="session")
def open_tiny(tmp_path_factory: pytest.TempPathFactory) -> OpenTiny:
    """A function that opens the exported graphs of a tiny model: `open_tiny("tiny-swish-tied", "merged")`."""
    opened: dict[tuple[str, str], TinyExport] = {}

    def open_one(family: str = "tiny-swish-tied", layout: str = "merged") -> TinyExport:
        if (family, layout) not in opened:
            folder = tmp_path_factory.mktemp(f"{family}-{layout}")
            for file in ("config.json", "generation_config.json", "encoder_model.onnx"):
                shutil.copy(GOLDEN / family / file, folder / file)
            for file, name in FILES[layout].items():
                shutil.copy(GOLDEN / family / file, folder / name)
            golden = json.loads((GOLDEN / f"{family}.json").read_text(encoding="utf-8"))
            cases = [Case(**case) for case in golden["cases"]]
            opened[family, layout] = TinyExport(folder, ExportedSeq2Seq.open(folder), golden["sources"], cases)
        return opened[family, layout]

    return open_one


@pytest.fixture(scope="session")
def open_kv(tmp_path_factory: pytest.TempPathFactory) -> OpenKV:
    """A function that builds the native graphs of a tiny model: `open_kv("tiny-relu-tied", Precision.INT8)`."""
    opened: dict[tuple[str, Precision], TinyNative] = {}

    def open_one(family: str = "tiny-swish-tied", precision: Precision = Precision.FP32) -> TinyNative:
        if (family, precision) not in opened:
            folder = tmp_path_factory.mktemp(f"{family}-{precision}")
            opened[family, precision] = build_kv(folder, family, precision)
        return opened[family, precision]

    return open_one


@pytest.fixture
def tiny(open_tiny: OpenTiny) -> TinyExport:
    """The exported tiny model, in the merged layout, that most tests use."""
    return open_tiny("tiny-swish-tied", "merged")


@pytest.fixture(scope="session")
def golden_folder() -> Path:
    return GOLDEN
