"""A published GGUF file in another of llama.cpp's formats, added as a model that llama.cpp runs.

    python -m bench.peers.requantized_gguf smollm2|gemma3 FOLDER f32|q8_0|q4_k_m

llama.cpp's own quantizer reads the published weights as float32, and writes them anew.
"""

import argparse
import ctypes
import tempfile
from pathlib import Path

from bench.checkpoints.published import GGUF_NAMES, write_gguf
from worker.model_tools.add.add import Request, add_model

FORMATS = {
    "f32": "LLAMA_FTYPE_ALL_F32",
    "q8_0": "LLAMA_FTYPE_MOSTLY_Q8_0",
    "q4_k_m": "LLAMA_FTYPE_MOSTLY_Q4_K_M",
}


def write_requantized(name: str, file: Path, kind: str) -> None:
    """Write the GGUF file. Raises RuntimeError where llama.cpp refuses."""
    from llama_cpp import llama_cpp

    published = file.with_name(f"{file.name}.published")
    write_gguf(name, published)
    settings = llama_cpp.llama_model_quantize_default_params()
    settings.ftype = getattr(llama_cpp, FORMATS[kind])
    settings.allow_requantize = True
    if llama_cpp.llama_model_quantize(str(published).encode(), str(file).encode(), ctypes.byref(settings)):
        raise RuntimeError(f"llama.cpp cannot write {name} as {kind}")
    published.unlink()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers.requantized_gguf", description="A published GGUF file in another format."
    )
    parser.add_argument("name", choices=GGUF_NAMES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=FORMATS)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder.parent) as work:
        file = Path(work) / f"{options.kind}.gguf"
        write_requantized(options.name, file, options.kind)
        add_model(Request(source=str(file), name=options.folder.name, keep_gguf=True), options.folder.parent)


if __name__ == "__main__":
    main()
