"""
Opening an ONNX graph as a session.

Knows: what can be wrong with a file, and the session settings that suit lanes. Does not know: what the graph computes.
"""

import ctypes
import functools
import re
from collections.abc import Sequence
from pathlib import Path

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from jobs.errors import ModelError
from worker.engine.runtime.device import CPU_PROVIDER, CUDA_PROVIDER, Device, Provider

# onnxruntime has no common base class for the errors that it raises when it loads a graph.
_LOAD_ERRORS = (
    ort_errors.EPFail,
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.NoModel,
    ort_errors.NoSuchFile,
    ort_errors.NotImplemented,
    ort_errors.RuntimeException,
)


def open_session(
    file: Path,
    *,
    threads: int = 1,
    spinning: bool = False,
    providers: Sequence[Provider] = (CPU_PROVIDER,),
    graph: bytes | None = None,
    operators: Path | None = None,
) -> onnxruntime.InferenceSession:
    """Open a graph that several lanes may run at once; raise ModelError that names the file and says what to do.

    `threads`: of one model call. `graph`: a graph to open in place of `file`, with the weights that lie beside `file`.
    `operators`: a shared library with custom operators of the graph.
    """
    if not file.is_file():
        raise ModelError(f"{file} does not exist")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    # A thread that waits does not spin by default: another lane can use its core. Decoder of 6 layers, D 512,
    # V 65,001, 32 rows, two busy cores: two lanes of one thread 711 rows/s, one lane of two threads 690, and 459
    # where its threads spin.
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spinning else "0")
    # It would allocate a block for each new shape of the inputs, and shapes seldom recur. Scoring with the sizes of
    # Qwen2.5-0.5B in int8: 1,367 MB at most instead of 1,459, in the same time; steps and translations in the same too.
    options.enable_mem_pattern = False
    options.log_severity_level = 3  # errors only: its warnings are about choices of the exporter
    if graph is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(file.parent))
    if operators is not None:
        options.register_custom_ops_library(str(operators))
    device = Device.of(providers)
    if device.kind != "cpu":
        _load_cuda()
    try:
        session = onnxruntime.InferenceSession(
            str(file) if graph is None else graph,
            options,
            providers=list(providers),
            # It fuses Add and LayerNormalization; the fused node takes 194 us, and the two take 26 (64 x 512). On a GPU
            # it saves the start of a kernel.
            disabled_optimizers=["SkipLayerNormFusion"] if device.kind == "cpu" else [],
        )
    except _LOAD_ERRORS as error:
        raise ModelError(_explain(file, str(error))) from error
    _return_free_memory()
    if device.kind != "cpu" and CUDA_PROVIDER not in session.get_providers():
        # onnxruntime only logs why, and continues on the CPU.
        raise ModelError(
            f"{file} cannot run on {device.kind}:{device.number}: onnxruntime {onnxruntime.__version__} could not "
            "start CUDA there; check the driver with nvidia-smi, and pip install 'onnxruntime-gpu[cuda,cudnn]'"
        )
    return session


def _return_free_memory() -> None:
    """Return memory that onnxruntime freed while it opened a graph: glibc keeps blocks of less than 32 MB. Where
    it shifts weights (`worker.graphs.unsigned_weights`), that is as much as they take; takes 0.2 ms."""
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(ctypes.c_size_t(0))


@functools.cache
def _load_cuda() -> None:
    """Load CUDA and cuDNN where they are Python packages: onnxruntime does not find them there by itself."""
    onnxruntime.preload_dlls()


def _explain(file: Path, reason: str) -> str:
    """A sentence that says what is wrong with the file and what to do about it, from onnxruntime's message."""
    installed = onnxruntime.__version__
    if match := re.search(r"Unsupported model IR version: (\d+), max supported IR version: (\d+)", reason):
        return (
            f"{file} has ONNX IR version {match[1]} and onnxruntime {installed} reads up to {match[2]}: upgrade "
            "onnxruntime, or export the model again with an older onnx"
        )
    if "opset" in reason and "support" in reason:
        return (
            f"{file} uses an operator set newer than onnxruntime {installed} knows: upgrade onnxruntime, or export "
            f"the model again with a lower --opset ({_last_sentence(reason)})"
        )
    if "No Op registered" in reason or "Could not find an implementation" in reason:
        return f"{file} uses an operator that onnxruntime {installed} lacks: {_last_sentence(reason)}"
    if "External data path validation failed" in reason and "does not exist" not in reason:
        return (
            f"{file} names a file outside of its folder as the place of its weights, and kvjobs reads no such file "
            f"({_last_sentence(reason)}): export the model again, or download it again"
        )
    if "xternal data" in reason or "external_data" in reason:
        return f"{file} keeps its weights in another file that is missing or damaged: {_last_sentence(reason)}"
    if file.read_bytes()[:8] == b"version ":
        return f"{file} is a Git LFS pointer, not the graph itself: run `git lfs pull`, or download the file again"
    if "rotobuf parsing failed" in reason or "No graph was found" in reason:
        return (
            f"{file} is not an ONNX graph, or only a part of one ({file.stat().st_size} bytes): "
            "download or export it again"
        )
    return f"{file} cannot be opened by onnxruntime {installed}: {_last_sentence(reason)}"


def _last_sentence(reason: str) -> str:
    """The end of onnxruntime's message, without the error code, the file and the line of its sources before it."""
    return reason.strip().split("failed:")[-1].strip().splitlines()[0][:300]
