"""
What the kernels give for random numbers, as bytes: `python -m tests.models.kernels.answers [LIBRARY [INSTRUCTION_SET]]`
prints a digest for each kernel, which is the same for every compiler, and of `any` for every machine.

The inputs come from numpy's generators, which give the same numbers everywhere.
"""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from tests.models.kernels.conftest import run_node
from worker.kernels import probe
from worker.kernels.files import LIBRARY
from worker.kernels.functions import Kernels
from worker.kernels.library import Library, load

ROUNDS = 5


def answers(kernels: Kernels) -> Iterator[tuple[str, NDArray[Any]]]:
    """The name of each kernel, with an array that it gave; of every kernel several."""
    for seed in range(ROUNDS):
        yield from _operators(kernels, np.random.default_rng(seed))
        yield from _functions(kernels, np.random.default_rng(seed))


def digests(kernels: Kernels) -> dict[str, str]:
    """Of each kernel, one of all that it gave."""
    found: dict[str, Any] = {}
    for name, array in answers(kernels):
        found.setdefault(name, hashlib.sha256()).update(np.ascontiguousarray(array).tobytes())
    return {name: digest.hexdigest()[:16] for name, digest in found.items()}


def kernels_of(file: Path, instruction_set: str = "") -> Kernels | None:
    """The kernels of a library for an instruction set, or the best; None if this processor cannot run them."""
    functions = load(file)
    chosen = functions.kvjobs_choose_kernels(instruction_set.encode() or None)
    return None if chosen is None else Kernels(Library(file, chosen.decode(), functions))


def _operators(kernels: Kernels, rng: np.random.Generator) -> Iterator[tuple[str, NDArray[Any]]]:
    cases = [*probe._attention(rng), *probe._rows(rng)]
    with patch.object(probe, "_SIZE", 512), patch.object(probe, "_MIXED_SIZE", 1536):
        cases += probe._rows(rng)
    for case in cases:
        types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in case.wanted.items()}
        for array in run_node(kernels, case.node, case.feed, types):
            yield case.node.op_type, array


def _functions(kernels: Kernels, rng: np.random.Generator) -> Iterator[tuple[str, NDArray[Any]]]:
    logits = 5 * rng.standard_normal((12, 1003), np.float32)
    factors = rng.random(12, np.float32) + np.float32(0.5)
    normalizers, before = rng.standard_normal((2, 12), np.float32)
    for scales in (None, factors):
        yield "sum_powers", kernels.sum_powers(logits, scales)
        for count in (8, 40):
            for array in kernels.best_continuations(logits, scales, normalizers, before.reshape(3, 4), count):
                yield "best_continuations", array


def main() -> None:
    """Print the digests."""
    given = sys.argv[1:]
    kernels = kernels_of(Path(given[0]) if given else LIBRARY, *given[1:])
    if kernels is None:
        sys.exit(f"this processor does not have {given[1]}")
    print(kernels.library.instruction_set)
    for name, digest in digests(kernels).items():
        print(digest, name)


if __name__ == "__main__":
    main()
