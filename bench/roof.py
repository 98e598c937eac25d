"""How fast this machine multiplies: the upper bound of every rate of tokens.

    python -m bench.roof [--seconds 0.3] [--rows FILE] [--json]

GFLOP/s of onnxruntime's products of M rows with a matrix of 512 x N: `MatMul` in fp32, and in integers (u8 x s8)
`MatMulIntegerToFloat`, with scales given, and `DynamicQuantizeMatMul`, which finds those of the rows itself. A lane is
a thread that multiplies on its own, with its own rows and outputs, by the same weights. Then what the highest of these
figures would be in tokens a second of the opus-shaped works of `bench.translate`, if a translation were nothing but
products at that rate; with `--rows` (what its `--json` wrote) also the share of that which each row reaches.

Needs the extra `bench` (onnx).
"""

import argparse
import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from bench.checkpoints.shapes import SHAPES
from bench.harness.flops import Sizes, flop_per_token
from bench.harness.works import OPUS, SOURCE_TOKENS, TARGET_TOKENS, WORKS
from jobs.system.process import available_cores

K = 512
COLUMNS = (2_048, 65_000)  # the feed-forward of an opus-mt model, and its head
ROWS = (64, 128, 256, 512)
OPERATORS = {"MatMul": "fp32", "MatMulIntegerToFloat": "int8", "DynamicQuantizeMatMul": "int8"}
_CONTRIB = "com.microsoft"


@dataclass(frozen=True, slots=True)
class Product:
    """One measured product."""

    operator: str
    precision: str
    columns: int
    rows: int  # of one lane
    lanes: int
    gflops: float  # all lanes together


def measure(seconds: float = 0.3, columns: Sequence[int] = COLUMNS, rows: Sequence[int] = ROWS) -> Iterator[Product]:
    """Every operator at every size, with one lane and with a lane per core; each for `seconds` at least."""
    for operator, precision in OPERATORS.items():
        for n in columns:
            session = _session(operator, n)
            for m in rows:
                for lanes in sorted({1, available_cores()}):
                    yield Product(operator, precision, n, m, lanes, _gflops(session, operator, m, n, lanes, seconds))


def peaks(products: Sequence[Product]) -> dict[str, float]:
    """The highest GFLOP/s of each precision, with any number of lanes."""
    return {
        precision: max(product.gflops for product in products if product.precision == precision)
        for precision in sorted(set(OPERATORS.values()))
    }


def _session(operator: str, n: int) -> onnxruntime.InferenceSession:
    """One product with constant weights, which onnxruntime packs beforehand, as in a model."""
    import onnx
    from onnx import TensorProto, helper

    rng = np.random.default_rng(0)
    weights = rng.standard_normal((K, n), np.float32) * np.float32(0.02)
    quantized = np.clip(np.rint(weights / 0.001), -127, 127).astype(np.int8)
    scale, zero = np.float32(0.001), np.uint8(128)
    given = {
        "MatMul": ("", ["rows", "weights"], {"weights": weights}),
        "MatMulIntegerToFloat": (
            _CONTRIB,
            ["rows", "weights", "row_scale", "scales", "zero"],
            {"weights": quantized, "row_scale": np.float32(0.02), "scales": np.full(n, scale), "zero": zero},
        ),
        "DynamicQuantizeMatMul": (
            _CONTRIB,
            ["rows", "weights", "scales"],
            {"weights": quantized, "scales": np.full(n, scale)},
        ),
    }
    domain, inputs, constants = given[operator]
    kind = TensorProto.UINT8 if operator == "MatMulIntegerToFloat" else TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, ["product"], domain=domain)],
        "product",
        [helper.make_tensor_value_info("rows", kind, ["M", K])],
        [helper.make_tensor_value_info("product", TensorProto.FLOAT, ["M", n])],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_CONTRIB, 1)]
    model = helper.make_model(graph, ir_version=8, opset_imports=opsets)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _gflops(session: onnxruntime.InferenceSession, operator: str, m: int, n: int, lanes: int, seconds: float) -> float:
    """All lanes multiply for `seconds`; each counts its own products and its own time, and the rates add up."""
    started, rates = threading.Barrier(lanes), [0.0] * lanes

    def multiply(lane: int) -> None:
        binding = session.io_binding()
        rows = _rows(operator, m)
        product = np.empty((m, n), np.float32)  # bound: fresh memory for every product would be measured as well
        binding.bind_cpu_input("rows", rows)
        binding.bind_output("product", "cpu", 0, np.float32, product.shape, product.ctypes.data)
        session.run_with_iobinding(binding)
        started.wait()
        count, start = 0, time.perf_counter()
        while (now := time.perf_counter()) - start < seconds or count < 2:
            session.run_with_iobinding(binding)
            count += 1
        rates[lane] = count * 2 * m * K * n / (now - start) / 1e9

    threads = [threading.Thread(target=multiply, args=(lane,)) for lane in range(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)


def _rows(operator: str, m: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    if operator == "MatMulIntegerToFloat":
        return rng.integers(0, 256, (m, K), np.uint8)
    return rng.standard_normal((m, K), np.float32)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.roof", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.3, help="for each product")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="what bench.translate --json wrote")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    products = list(measure(options.seconds))
    if options.json:
        print(json.dumps([asdict(product) for product in products]))
        return
    _print_products(products)
    rows = json.loads(options.rows.read_text(encoding="utf-8")) if options.rows else []
    _print_roofs(peaks(products), rows)


def _print_products(products: Sequence[Product]) -> None:
    for product in products:
        size = f"{product.rows} x {K} x {product.columns:,}"
        print(f"{product.operator:22} {product.lanes} lanes  {size:20} {product.gflops:7,.0f} GFLOP/s")


def _print_roofs(highest: dict[str, float], rows: Sequence[dict[str, Any]]) -> None:
    sizes = Sizes.of(SHAPES[OPUS])
    for work in WORKS:
        if work.model != OPUS or work.alone:
            continue  # its lengths are not known here: bench.translate prints its shares
        flop = flop_per_token(sizes, source_tokens=SOURCE_TOKENS, target_tokens=TARGET_TOKENS, beams=work.beams)
        roof = highest[work.precision] * 1e9 / flop
        print(f"{work.name:14} {flop / 1e6:,.0f} MFLOP a token: {roof:,.0f} tokens/s at {highest[work.precision]:,.0f}")
        for row in rows:
            if row["work"] == work.name:
                print(f"    {row['peer']:20} ours {row['ours'] / roof:6.1%}   theirs {row['theirs'] / roof:6.1%}")


if __name__ == "__main__":
    main()
