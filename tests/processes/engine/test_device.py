"""A GPU that this onnxruntime cannot use."""

import pytest

from tests.command_line import Kvjobs


def test_a_gpu_that_onnxruntime_cannot_use_is_one_sentence(kvjobs: Kvjobs) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime can")

    refused = kvjobs("worker", "--device", "cuda:0", "--drain")

    assert refused.exit_code == 2
    assert "onnxruntime-gpu" in refused.err
