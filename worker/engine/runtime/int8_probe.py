"""
Which int8 products are exact on this processor.

Without VNNI, AVX2 and AVX-512 add two products of uint8 and int8 in 16 bits and saturate: 255 x 127 + 255 x 127 becomes
32,767. (onnxruntime's docs/performance/model-optimizations/quantization.md, "when and why do I need to try U8U8".)
Native int8 graphs use the whole range, so such a processor would compute other numbers; with their weights in uint8 it
computes the same ones (`worker.graphs.unsigned_weights`).
"""

import enum
import functools
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime

from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.matrix_products import quantized_product, store_quantized
from worker.graphs.unsigned_weights import with_unsigned_weights
from worker.graphs.weights import WeightsFile

_WIDTH = 64  # K and N


class Int8(enum.StrEnum):
    """The type of the weights with which products are exact."""

    SIGNED = "signed"  # as the files have them
    UNSIGNED = "unsigned"
    NEITHER = "neither"


@functools.cache
def exact_int8() -> Int8:
    """Multiply the largest numbers that int8 has, once per process; takes a few milliseconds."""
    with tempfile.TemporaryDirectory() as name:
        with WeightsFile(Path(name, "weights.data")) as store:
            net = GraphBuilder("saturation", store)
            x = net.input("x", np.uint8, ["M", _WIDTH])
            weight = store_quantized(net, "largest", lambda: np.ones((_WIDTH, _WIDTH), np.float32))
            y = quantized_product(net, x, weight)
            net.output(y, "y", np.float32, ["M", _WIDTH])
        signed = net.model().SerializeToString()
        for kind, graph in ((Int8.SIGNED, signed), (Int8.UNSIGNED, with_unsigned_weights(signed))):
            file = Path(name, f"{kind}.onnx")
            file.write_bytes(graph)
            session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
            sums = session.run(["y"], {"x": np.full((2, _WIDTH), 255, np.uint8)})[0]
            if np.allclose(sums, (255 - 128) * _WIDTH, rtol=1e-4):
                return kind
    return Int8.NEITHER
