"""Decoding and scoring on an NVIDIA GPU, if there is one: python -m pytest tests/live/test_on_a_gpu.py

tests/models/engine/seq2seq/native/test_device_kv_slots.py tests the same code with the CPU as the device.
"""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from jobs.tasks.shared_options import CachePolicy
from tests.causal_checkpoints import write_causal_checkpoint
from tests.checkpoints import write_marian_checkpoint
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.protocol import Group
from worker.engine.runtime.device import Device, providers
from worker.engine.runtime.host_arrays import GrowingBuffer
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.seq2seq.native.device_buffers import DeviceBuffers, DeviceCopies
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.tasks.cache_report import TranslationWork, measure_cache
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model

CUDA = providers("cuda:0")

pytestmark = [
    pytest.mark.may_skip,
    pytest.mark.skipif(
        "CUDAExecutionProvider" not in onnxruntime.get_available_providers(),
        reason="onnxruntime cannot use a GPU here (docs/fleet.md, GPUs)",
    ),
    pytest.mark.timeout(600),
]

LENGTHS = (3, 7, 7, 1, 12, 5, 5, 5, 9, 20, 2, 7, 40, 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in fp16, with heads of the size that published models have."""
    place = tmp_path_factory.mktemp("gpu")
    checkpoint = write_marian_checkpoint(place / "tiny", width=128, heads=2, ffn=256, max_positions=128)
    return Path(add_model(Request(source=str(checkpoint), precision=Precision.FP16), place / "models").path)


def decode(model: NativeSeq2Seq, *, beams: int, rows: int = 4, policy: str = "on") -> list[list[Hypothesis]]:
    rng = np.random.default_rng(2)
    sources = [[*rng.integers(2, 70, length - 1).tolist(), 0] for length in LENGTHS]
    decoder = model.new_decoder(CachePolicy.parse(policy))
    rules = dataclasses.replace(model.generation, num_beams=beams)
    found: dict[int, list[Hypothesis]] = {}
    for ended in decoder.decode(sources, rules, RunContext(), batch_size=rows):
        found.update(ended)
    return [found[index] for index in range(len(LENGTHS))]


def agreement(one: list[list[Hypothesis]], other: list[list[Hypothesis]]) -> float:
    return float(np.mean([a[0].ids == b[0].ids for a, b in zip(one, other, strict=True)]))


@pytest.fixture(scope="module")
def causal_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A causal model in fp16."""
    place = tmp_path_factory.mktemp("gpu")
    checkpoint = write_causal_checkpoint(place / "tiny", "llama", width=128, ffn=192)
    return Path(add_model(Request(source=str(checkpoint), precision=Precision.FP16), place / "models").path)


def log_probs(folder: Path, **how: Any) -> list[Any]:
    """Of 12 sequences behind one prefix, and of each such group."""
    rng = np.random.default_rng(6)
    groups = [
        Group(tuple(rng.integers(3, 250, 30)), [tuple(rng.integers(3, 250, size)) for size in range(6, 18)], [0] * 12)
        for _ in range(4)
    ]
    found = dict(NativeCausal.open(folder, **how).new_reader().read(groups, RunContext()))
    return [part for index in range(len(groups)) for part in found[index]]


def test_a_prefix_is_shared_on_the_gpu_whatever_its_memory_held(
    causal_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = log_probs(causal_folder)
    lay_out = GrowingBuffer.lay_out

    def lay_out_in_nan(buffer: GrowingBuffer, shape: tuple[int, ...]) -> Any:
        allocations, array = buffer.allocations, lay_out(buffer, shape)
        if buffer.allocations > allocations:
            array.fill(np.nan)
        return array

    monkeypatch.setattr(GrowingBuffer, "lay_out", lay_out_in_nan)

    found = log_probs(causal_folder, providers=CUDA)

    for part, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(part, expected, atol=0.05)


@pytest.mark.parametrize("beams", [1, 4])
def test_the_gpu_gives_nearly_the_translations_of_the_cpu(folder: Path, beams: int) -> None:
    """Both round to float16, but at different points: nearly all translations are equal, and all scores are close."""
    gpu, cpu = (decode(NativeSeq2Seq.open(folder, **how), beams=beams) for how in ({"providers": CUDA}, {}))

    assert agreement(gpu, cpu) >= 0.85
    for found, wanted in zip(gpu, cpu, strict=True):
        assert found[0].score == pytest.approx(wanted[0].score, abs=0.05)


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("policy", ["off", "hybrid:3"])
def test_the_gpu_gives_nearly_the_same_translations_without_its_cache(folder: Path, beams: int, policy: str) -> None:
    model = NativeSeq2Seq.open(folder, providers=CUDA)

    assert agreement(decode(model, beams=beams, policy=policy), decode(model, beams=beams)) >= 0.85


@pytest.mark.parametrize("rows", [2, 7, 64])
def test_a_translation_on_the_gpu_hardly_depends_on_the_batch_size(folder: Path, rows: int) -> None:
    model = NativeSeq2Seq.open(folder, providers=CUDA)

    assert agreement(decode(model, beams=1, rows=rows), decode(model, beams=1, rows=1)) >= 0.85


def test_select_moves_rows_correctly_on_the_gpu(folder: Path) -> None:
    shape = NativeSeq2Seq.open(folder).graphs.shape
    device, rng = Device.of(CUDA), np.random.default_rng(3)
    moves = DeviceCopies(shape, folder / "decoder.onnx", threads=1, providers=CUDA)
    first, second = DeviceBuffers(shape, device), DeviceBuffers(shape, device)
    for buffers in (first, second):
        buffers.lay_out(5, 32)
    written: list[Any] = [
        rng.normal(size=(5, shape.num_heads, 7, shape.head_size)).astype(np.float16)
        for _ in range(2 * shape.num_layers)
    ]
    rows = np.array([0, 4, 2, 2])

    moves.widen(written, first, 5)
    moves.select(first, 5, second, rows)

    for buffer, tensor in zip(second._buffers, written, strict=True):
        moved = buffer.numpy()[: tensor[:4].size // 7 * 32].reshape(4, shape.num_heads, 32, shape.head_size)
        np.testing.assert_array_equal(moved[:, :, :7], tensor[rows])
        assert not moved[:, :, 7:].any()


def test_the_cache_changes_few_translations_on_the_gpu_and_its_speed_is_printed(folder: Path) -> None:
    rng = np.random.default_rng(4)
    sources = [[*rng.integers(2, 70, 29).tolist(), 0] for _ in range(32)]

    work = TranslationWork(NativeSeq2Seq.open(folder, providers=CUDA), sources)
    report = measure_cache(work, target_tokens=60, repeats=1)

    print(f"{report.ratio:.1f} times as fast with the cache, {report.num_different} of 32 different")
    assert report.num_different <= 4
