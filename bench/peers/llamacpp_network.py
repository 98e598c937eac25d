"""A GGUF file of a checkpoint, loaded by llama-cpp-python."""

import ctypes
from pathlib import Path
from typing import Any

from bench.checkpoints.folders import made_once


def load_network(checkpoint: Path, folder: Path, precision: str) -> Any:
    """Write the GGUF file into `folder` once, and load it. Raises RuntimeError."""
    from llama_cpp import llama_cpp

    file = made_once(
        folder / f"llamacpp-{precision}.gguf",
        lambda out: ["bench.checkpoints.gguf_file", str(checkpoint), str(out), precision],
    )
    llama_cpp.llama_log_set(_SILENT, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    network = llama_cpp.llama_model_load_from_file(str(file).encode(), llama_cpp.llama_model_default_params())
    if not network:
        raise RuntimeError(f"llama.cpp cannot load {file}")
    return network


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def _SILENT(level: int, text: bytes, data: Any) -> None:
    """llama.cpp tells a lot about what it loads. A callback lives as long as its name: so it has one."""
