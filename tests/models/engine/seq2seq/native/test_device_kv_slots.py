"""Keys and values in the memory of a device: the code for GPUs, here with the CPU as the device."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from jobs.errors import ModelError
from jobs.tasks.shared_options import CachePolicy
from tests.checkpoints import write_marian_checkpoint
from worker.engine.runtime.device import CPU_PROVIDER, Device
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.seq2seq.native.device_buffers import DeviceBuffers, DeviceCopies
from worker.engine.seq2seq.native.device_kv_slots import DeviceKVSlots
from worker.engine.seq2seq.native.kv_slots import KVSlots, KVSlotShape
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model

LENGTHS = (3, 7, 7, 1, 12, 5, 5, 5, 9, 20, 2, 7, 40, 4)
CPU = Device("cpu", 0)

Open = Callable[..., NativeSeq2Seq]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_marian_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture(scope="module")
def open_kv(folder: Path) -> Open:
    opened: dict[tuple[str, bool], NativeSeq2Seq] = {}

    def open_one(precision: str = "fp32", *, on_device: bool) -> NativeSeq2Seq:
        if (precision, on_device) not in opened:
            models_dir = folder.parent / "models"
            request = Request(source=str(folder), name=precision, precision=Precision(precision), force=True)
            path = Path(add_model(request, models_dir).path)
            opened[precision, on_device] = NativeSeq2Seq.open(path, on_device=on_device)
        return opened[precision, on_device]

    return open_one


def sources() -> list[list[int]]:
    rng = np.random.default_rng(2)
    return [[*rng.integers(2, 70, length - 1).tolist(), 0] for length in LENGTHS]


def decode(
    model: NativeSeq2Seq, *, beams: int, rows: int = 4, policy: str = "on", decoder: Any = None
) -> list[list[Hypothesis]]:
    decoder = decoder or model.new_decoder(CachePolicy.parse(policy))
    rules = dataclasses.replace(model.generation, num_beams=beams)
    found: dict[int, list[Hypothesis]] = {}
    for ended in decoder.decode(sources(), rules, RunContext(), batch_size=rows):
        found.update(ended)
    return [found[index] for index in range(len(LENGTHS))]


def ids_of(found: Sequence[Sequence[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.ids for hypothesis in best] for best in found]


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_device_gives_the_results_of_the_host_for_any_batch_size(open_kv: Open, precision: str, beams: int) -> None:
    host = decode(open_kv(precision, on_device=False), beams=beams, rows=4)
    # Another kernel's last bit may turn the rounding of an activation.
    tolerance = 1e-5 if precision == "fp32" else 1e-3

    for rows in (1, 4, 32):
        device = decode(open_kv(precision, on_device=True), beams=beams, rows=rows)
        assert ids_of(device) == ids_of(host), rows
        for found, wanted in zip(device, host, strict=True):
            assert [hypothesis.score for hypothesis in found] == pytest.approx(
                [hypothesis.score for hypothesis in wanted], abs=tolerance
            ), rows


@pytest.mark.parametrize("beams", [1, 4])
def test_half_precision_decodes_on_a_device(open_kv: Open, beams: int) -> None:
    """onnxruntime's CPU computes float16 nodes in float32 and rounds between them, so the scores are close."""
    half, exact = (decode(open_kv(precision, on_device=True), beams=beams) for precision in ("fp16", "fp32"))

    assert (
        sum(hypothesis == expected for hypothesis, expected in zip(ids_of(half), ids_of(exact), strict=True))
        >= len(LENGTHS) - 1
    )
    for found, wanted in zip(half, exact, strict=True):
        assert found[0].score == pytest.approx(wanted[0].score, abs=0.02)


@pytest.mark.parametrize("policy", ["off", "hybrid:3"])
@pytest.mark.parametrize("beams", [1, 4])
def test_a_device_gives_the_same_ids_without_its_cache(open_kv: Open, beams: int, policy: str) -> None:
    model = open_kv(on_device=True)

    assert ids_of(decode(model, beams=beams, policy=policy)) == ids_of(decode(model, beams=beams))


def test_a_second_call_reuses_the_memory(open_kv: Open) -> None:
    model = open_kv(on_device=True)
    decoder = model.new_decoder()
    first = decode(model, beams=4, decoder=decoder)
    allocations = decoder.buffer_stats.allocations

    assert decode(model, beams=4, decoder=decoder) == first
    assert decoder.buffer_stats.allocations == allocations
    assert decoder.buffer_stats.reuses > 0
    assert decoder.buffer_stats.num_bytes > 0


def test_out_of_device_memory_the_batch_is_made_smaller(open_kv: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    model = open_kv(on_device=True)
    whole = decode(model, beams=1, rows=8)
    allocate = DeviceKVSlots.allocate

    def short(self: DeviceKVSlots, sentences: int, *sizes: int) -> None:
        if sentences > 2:
            raise RuntimeError("BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer")
        allocate(self, sentences, *sizes)

    monkeypatch.setattr(DeviceKVSlots, "allocate", short)

    assert ids_of(decode(model, beams=1, rows=8)) == ids_of(whole)


# --- slots and buffers alone, compared with the host's


@pytest.fixture
def shape() -> KVSlotShape:
    return KVSlotShape(num_layers=2, num_heads=2, head_size=8, dtype=np.dtype(np.float32))


@pytest.fixture
def moves(shape: KVSlotShape, open_kv: Open, folder: Path) -> DeviceCopies:
    open_kv(on_device=True)
    return DeviceCopies(shape, folder.parent / "models" / "fp32" / "decoder.onnx", threads=1, providers=[CPU_PROVIDER])


def content(buffers: DeviceBuffers, rows: int) -> Any:
    """The first rows of the buffers as one array (2 L, rows, N, C, H)."""
    shape = buffers._shape
    size = rows * shape.num_heads * buffers.length * shape.head_size
    tensors = [buffer.numpy()[:size] for buffer in buffers._buffers]
    return np.stack(tensors).reshape(2 * shape.num_layers, rows, shape.num_heads, buffers.length, shape.head_size)


@pytest.mark.parametrize("beams", [1, 3])
def test_rows_have_the_same_content_as_on_the_host(shape: KVSlotShape, moves: DeviceCopies, beams: int) -> None:
    rng = np.random.default_rng(5)
    host, device = KVSlots(shape), DeviceKVSlots(shape, CPU, moves)
    for slots in (host, device):
        slots.allocate(6, beams, 4, 20)
    for length, count in ((20, 2), (7, 1), (3, 3)):
        cross = rng.normal(size=(count, length, 4, 2, 8)).astype(np.float32)
        host.append(cross)
        device.append(cross)
    present = [rng.normal(size=(6 * beams, 2, 5, 8)).astype(np.float32) for _ in range(4)]
    host.fill(present)
    device.fill(present)
    sentences = np.array([0, 5, 2, 4])
    rows = (sentences[:, None] * beams + np.array([0, 0, 2])[:beams]).ravel()

    host.select(rows)
    device.select(rows)

    assert host.num_rows == device.num_rows == 4 * beams
    assert host.longest == device.longest == 5
    np.testing.assert_array_equal(
        content(device._past[0], 4 * beams)[..., :5, :], host._past.array[:, : 4 * beams, :, :5]
    )
    for row, end in enumerate(host._source_ends[:4].tolist()):
        assert device._mask[row].sum() == end + 1
        found, wanted = content(device._cross[0], 4)[:, row], host._cross.array[:, row, :, : end + 1]
        np.testing.assert_array_equal(found[..., : end + 1, :], wanted)
        assert not found[..., end + 1 :, :].any()  # NaN there would pass through the mask


def test_widening_keeps_the_rows_and_zeroes_the_new_positions(shape: KVSlotShape, moves: DeviceCopies) -> None:
    rng = np.random.default_rng(6)
    buffers, wider = DeviceBuffers(shape, CPU), DeviceBuffers(shape, CPU)
    buffers.lay_out(3, 16)
    wider.lay_out(3, 32)
    written = [rng.normal(size=(3, 2, 16, 8)).astype(np.float32) for _ in range(4)]
    moves.widen(written, buffers, 3)

    moves.widen(buffers, wider, 2)

    np.testing.assert_array_equal(content(wider, 2)[..., :16, :], np.stack(written)[:, :2])
    assert not content(wider, 2)[..., 16:, :].any()


def test_placing_new_rows_leaves_the_other_rows_unchanged(shape: KVSlotShape, moves: DeviceCopies) -> None:
    rng = np.random.default_rng(7)
    buffers = DeviceBuffers(shape, CPU)
    buffers.lay_out(5, 16)
    first, second = (rng.normal(size=(2, length, 4, 2, 8)).astype(np.float32) for length in (16, 3))

    moves.place(first, buffers, 0)
    moves.place(second, buffers, 3)
    moves.place(second, buffers, 2)

    np.testing.assert_array_equal(content(buffers, 5)[:, :2], first.transpose(2, 0, 3, 1, 4))
    np.testing.assert_array_equal(content(buffers, 5)[:, 3, :, :3], second.transpose(2, 0, 3, 1, 4)[:, 1])


def test_garbage_in_a_buffer_changes_nothing(open_kv: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    model = open_kv(on_device=True)
    clean = decode(model, beams=4)
    lay_out = DeviceBuffers.lay_out

    def lay_out_with_nan(self: DeviceBuffers, rows: int, length: int) -> None:
        lay_out(self, rows, length)
        for buffer in self._buffers:
            buffer.update_inplace(np.full(buffer.shape(), np.nan, np.float32))

    monkeypatch.setattr(DeviceBuffers, "lay_out", lay_out_with_nan)

    assert decode(model, beams=4) == clean


# --- devices


def test_the_device_is_that_of_the_first_provider() -> None:
    assert Device.of([CPU_PROVIDER]) == Device("cpu", 0)
    assert Device.of([("CUDAExecutionProvider", {"device_id": "2"}), CPU_PROVIDER]) == Device("cuda", 2)
    assert Device.of(["CUDAExecutionProvider"]) == Device("cuda", 0)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_precision_that_gpus_cannot_run_is_refused_with_one_sentence(
    open_kv: Open, folder: Path, precision: str
) -> None:
    open_kv(precision, on_device=False)

    with pytest.raises(ModelError, match=f"{precision}.*--precision fp16"):
        NativeSeq2Seq.open(folder.parent / "models" / precision, providers=["CUDAExecutionProvider"])


@pytest.mark.skipif(
    "CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="this onnxruntime is built for GPUs"
)
def test_an_unusable_gpu_is_an_error_and_not_replaced_by_the_cpu(open_kv: Open, folder: Path) -> None:
    open_kv("fp16", on_device=False)

    with pytest.warns(UserWarning, match="CUDA"), pytest.raises(ModelError, match="could not start CUDA"):
        NativeSeq2Seq.open(folder.parent / "models" / "fp16", providers=["CUDAExecutionProvider", CPU_PROVIDER])
