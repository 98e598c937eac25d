"""
Random operators, and random calls of the other kernels, for some time: `python -m tests.models.kernels.fuzz`.

Each is right at first; then, mostly, something is changed: an attribute becomes hostile, a shape longer or shorter, an
operand is left out, positions lie beyond the cache. Whether it is computed or refused does not matter here, only that
nothing else is read or written: what watches is a library that was compiled with sanitizers (.ci/kernels).
"""

import argparse
import mmap
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from tests.models.kernels.conftest import FLOAT, INSTRUCTION_SETS, INT8, REFUSED, UINT8, run_node
from worker.kernels.functions import Kernels
from worker.kernels.library import KERNELS, open_library

Array = NDArray[Any]
HOSTILE = (-(2**63), -(2**31), -1, 0, 1, 2, 3, 5, 2**16, 2**31, 2**32 + 1, 2**62 + 1, 2**63 - 1)
HOSTILE_FLOATS = (0.0, -1.0, 1e-38, 3e38, float("nan"), float("inf"), -float("inf"))


class Fuzzer:
    """One case after the other: a number gives the same case again."""

    def __init__(self, seed: int) -> None:
        self._kernels = Kernels(open_library())
        self._seed = seed

    def run(self, number: int) -> str:
        """What was called, and what came of it."""
        self._rng = np.random.default_rng([self._seed, number])
        self._kernels.library.functions.kvjobs_choose_kernels(self._one_of(INSTRUCTION_SETS).encode())
        call: Callable[[], None] = self._one_of(
            (
                *(self._attend, self._attend, self._within, self._finish, self._finish),
                *(self._search, self._copy_rows, self._lay_out),
            )
        )
        name = call.__name__.strip("_")
        try:
            call()
        except (*REFUSED, ValueError, MemoryError) as error:
            return f"{name}: {'refused' if 'kvjobs' in str(error) or isinstance(error, ValueError) else 'no call'}"
        return f"{name}: computed"

    def _one_of(self, choices: Any) -> Any:
        return choices[int(self._rng.integers(len(choices)))]

    def _some(self, least: int, most: int) -> int:
        return int(self._rng.integers(least, most + 1))

    def _rarely(self) -> bool:
        return self._some(0, 5) == 0

    def _floats(self, *shape: int) -> Array:
        found = self._rng.normal(size=shape).astype(np.float32)
        if found.size and self._rarely():
            found.flat[self._some(0, found.size - 1)] = self._one_of(HOSTILE_FLOATS)
        return found

    def _attend(self) -> None:
        heads, size, sources, capacity = self._some(1, 3), 16 * self._some(1, 17), self._some(0, 4), self._some(1, 20)
        appends, is_int8 = self._some(0, 1), self._some(0, 1)
        beams = 1 if appends else self._some(1, 9)
        if self._some(0, 3) == 0:
            beams = self._one_of((0, -1, 2**61 + 1, 2**62 + 1, -(2**63), 2**63 - 1))
        num_rows = sources * beams % 2**64  # what a size in C would be, without a check
        num_rows = num_rows if num_rows < 100 else sources
        cache = self._floats(2, sources, heads, capacity, size)
        if is_int8:
            cache = self._rng.integers(-128, 128, cache.shape).astype(np.int8)
        feed = {"rows": self._floats(num_rows, (3 if appends else 1) * heads * size)}
        feed |= {"key": cache[0].copy(), "value": cache[1].copy()}
        feed["last"] = self._rng.integers(0, capacity, sources).astype(np.int32)
        if self._some(0, 1):
            feed["bias"] = self._floats(self._one_of((1, sources)), heads, 1, capacity)
        if is_int8:
            feed |= {"key_scale": self._floats(heads, size), "value_scale": self._floats(heads, size)}
        if sources and self._some(0, 3) == 0:
            feed["last"][-1] = self._one_of((-1, capacity, capacity, 2**31 - 1, -(2**31)))
        kind = INT8 if is_int8 else FLOAT
        self._node(
            "AttendToInt8Cache" if is_int8 else "AttendToCache",
            ("rows", "key", "value", "last", "bias", "key_scale", "value_scale"), feed,
            {"attended": FLOAT, "new_key": kind, "new_value": kind},
            {"heads": heads, "beams": beams, "appends": appends, "scale": 0.3},
        )  # fmt: skip

    def _within(self) -> None:
        heads, size, sentences, length = self._some(1, 3), 16 * self._some(1, 17), self._some(0, 4), self._some(0, 20)
        shape = np.array([sentences, length, -1])
        if self._rarely():
            shape[1] = self._one_of(HOSTILE)
        feed = {"packed": self._floats(sentences * length, 3 * heads * size), "shape": shape}
        self._node("AttendWithin", tuple(feed), feed, {"attended": FLOAT}, {"heads": heads, "scale": 0.3})

    def _finish(self) -> None:
        mixed = self._some(0, 1)
        rows, size = self._some(0, 5), 16 * self._some(1, 40) if mixed and not self._rarely() else self._some(0, 70)
        shapes: dict[str, tuple[int, ...]] = {"factors": (rows, 1), "bias": (size,), "residual": (rows, size)}
        shapes |= {"weight": (size,), "norm_bias": (size,)}
        feed = {"x": self._floats(rows, size)}
        feed |= {name: self._floats(*shape) for name, shape in shapes.items() if self._some(0, 1)}
        outputs = {"y": FLOAT, "sums": FLOAT, "quantized": UINT8, "scales": FLOAT}
        asked = {name: kind for name, kind in outputs.items() if self._some(0, 3)} or outputs
        activation, norm = self._some(0, 2), self._some(0, 2)
        if not self._rarely():  # parts that go together
            unused = (["residual"] if activation else []) + ([] if norm else ["weight", "norm_bias"])
            feed = {name: array for name, array in feed.items() if name not in unused}
            feed |= {"weight": self._floats(size)} if norm else {}
            asked = {name: kind for name, kind in outputs.items() if name in asked or name == "y"}
            asked = {name: kind for name, kind in asked.items() if norm or name != "sums"}
            asked |= {name: outputs[name] for name in ("quantized", "scales")}
        self._node(
            self._one_of(("FinishRows", "FinishProduct")), ("x", *shapes), feed, asked,
            {"activation": activation, "norm": norm, "epsilon": 1e-5, "lowest": 0.0, "mixed": mixed},
            tuple(outputs),
        )  # fmt: skip

    def _node(
        self, operator: str, names: tuple[str, ...], feed: dict[str, Array], asked: dict[str, int],
        attributes: dict[str, Any], outputs: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        if self._some(0, 2) == 0:
            name = self._one_of([*attributes])
            attributes[name] = self._one_of(HOSTILE_FLOATS if isinstance(attributes[name], float) else HOSTILE)
        if self._some(0, 2) == 0:
            name = self._one_of([*feed])
            if self._rarely():
                del feed[name]
            else:
                feed[name] = self._reshaped(feed[name])
        node = helper.make_node(
            operator, [name if name in feed else "" for name in names],
            [name if name in asked else "" for name in outputs or asked], domain=KERNELS, **attributes,
        )  # fmt: skip
        run_node(self._kernels, node, feed, asked)

    def _reshaped(self, array: Array) -> Array:
        """With an axis that is longer or shorter, one more, or one less."""
        shape = list(array.shape)
        axis = self._some(0, len(shape) - 1)
        change = self._some(0, 5)
        if change == 0:
            shape.insert(axis, 1)
        elif change == 1:
            shape.pop(axis)
        else:
            shape[axis] = max(0, self._one_of((0, shape[axis] - 1, shape[axis] + 1, 2 * shape[axis], shape[axis] // 2)))
        return np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)

    def _search(self) -> None:
        sentences, width, size = self._some(0, 4), self._some(1, 5), self._some(0, 300)
        rows = sentences * width
        arrays = [self._floats(*shape) for shape in ((rows, size), (rows,), (rows,), (sentences, width))]
        if self._some(0, 1):
            changed = self._some(0, 3)
            arrays[changed] = self._one_of((self._reshaped, np.transpose, np.float64, np.flip))(arrays[changed])
        logits, factors, normalizers, before = arrays
        factors = None if self._some(0, 1) else factors
        if self._some(0, 1):
            self._kernels.sum_powers(logits, factors)
        count = self._one_of((-1, 0, 64, 65)) if self._rarely() else self._some(1, 64)
        self._kernels.best_continuations(logits, factors, normalizers, before, count)

    def _cache(self, parts: int, rows: int, heads: int, capacity: int, size: int) -> Array:
        dtype = self._one_of((np.float32, np.int8, np.float16))
        return np.zeros((parts, rows, heads, capacity, size), dtype)

    def _copy_rows(self) -> None:
        rows, capacity, count = self._some(1, 5), self._some(1, 9), self._some(0, 6)
        cache = self._cache(self._some(1, 4), rows, self._some(1, 3), capacity, self._some(1, 20))
        moves = [self._rng.integers(0, rows, count) for _ in range(2)]
        moves += [self._rng.integers(0, capacity + 1, count).astype(np.int32) for _ in range(2)]
        if count and self._some(0, 1):
            changed = self._some(0, 3)
            moves[changed][self._some(0, count - 1)] = self._one_of((-1, -(2**31), rows, capacity + 1, 2**31 - 1))
        if self._rarely():
            moves[self._some(0, 3)] = np.zeros(self._some(0, 7), self._one_of((np.int32, np.int64)))
        self._kernels.copy_rows(cache, *moves)

    def _lay_out(self) -> None:
        parts, heads, size = self._some(1, 4), self._some(1, 3), self._some(1, 20)
        old = self._cache(parts, self._some(1, 5), heads, self._some(1, 9), size)
        new = np.zeros((parts, self._some(1, 5), heads, self._some(1, 9), size), old.dtype)
        if self._rarely():
            new = self._reshaped(new)
        kept, cached = (self._one_of((0, 0, 1, 1, 2, 2, 3, 4, 9, -1, 2**62)) for _ in range(2))
        self._kernels.lay_out(old, new, kept, cached)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--case", type=int, help="this case alone")
    given = parser.parse_args()
    if given.case is not None:
        print(Fuzzer(given.seed).run(given.case))
        return 0
    reached = mmap.mmap(-1, 8)  # of the process below, which a sanitizer ends
    process = os.fork()
    if not process:
        try:
            _run(given.seed, given.seconds, reached)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if status:
        number = int.from_bytes(reached[:], "little")
        print(f"again: python -m tests.models.kernels.fuzz --seed {given.seed} --case {number}", file=sys.stderr)
    return int(status != 0)


def _run(seed: int, seconds: float, reached: mmap.mmap) -> None:
    fuzzer, counts, number = Fuzzer(seed), Counter[str](), 0
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        reached[:] = number.to_bytes(8, "little")
        counts[fuzzer.run(number)] += 1
        number += 1
    watched = "libasan" in Path("/proc/self/maps").read_text()
    print(f"{number} cases of seed {seed}, {'with' if watched else 'without'} AddressSanitizer")
    print("\n".join(f"  {name} {count}" for name, count in sorted(counts.items())), flush=True)


if __name__ == "__main__":
    sys.exit(main())
