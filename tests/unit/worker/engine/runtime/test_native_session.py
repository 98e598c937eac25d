"""Whether a graph is opened with the operators of the kernels."""

import types
from pathlib import Path
from typing import Any

import pytest

from worker.engine.runtime import native_session
from worker.engine.runtime.native_session import open_native_session
from worker.graphs.precision import Precision


@pytest.mark.parametrize("fuses", [True, False])
def test_a_graph_gets_the_operators_of_kernels_that_are_for_graphs(
    fuses: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, library = tmp_path / "decoder.onnx", tmp_path / "kernels.so"
    file.write_bytes(b"graph")
    opened: dict[str, Any] = {}
    kernels = types.SimpleNamespace(fuses=fuses, file=library)
    monkeypatch.setattr(native_session, "compiled_kernels", lambda: kernels)
    monkeypatch.setattr(native_session, "fused", lambda graph: b"fused " + graph)
    monkeypatch.setattr(native_session, "open_session", lambda _file, **given: opened.update(given))

    open_native_session(file, Precision.FP32)

    assert opened["graph"] == (b"fused graph" if fuses else None)
    assert opened["operators"] == (library if fuses else None)
