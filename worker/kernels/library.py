"""
The shared library of the kernels: whether this process can use it, and why not.

Knows: ctypes. Does not know: arrays, graphs.
"""

import ctypes
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.system.process import how_it_ended
from worker.kernels.files import LIBRARY, sources_digest

KERNELS = "kvjobs"  # the domain of its operators, in graphs
VARIABLE = "KVJOBS_KERNELS"
OFF = "off"
# The instruction sets for which fused operators were measured, and are faster than onnxruntime's (docs/experiments.md).
# The generic ones, of aarch64 for one, take the place of what onnxruntime has for the processor: nobody measured that.
MEASURED = ("avx512", "avx2")
_BUILD = "python -m worker.kernels.build"
INSTALL_AGAIN = (
    "install kvjobs again on this machine, without pip's cache (pip install --force-reinstall --no-cache-dir ...); if "
    "they stay wrong, please report it"
)
_TRIAL = """
from worker.kernels.compiled import why_distrusted
from worker.kernels.library import open_library
print(why_distrusted(open_library()) or "")
"""


class NoKernelsError(Exception):
    """There are no kernels that this process can use: the message says why, and `mend` what to do."""

    def __init__(self, reason: str, mend: str) -> None:
        super().__init__(reason)
        self.mend = mend


@dataclass(frozen=True, slots=True)
class Library:
    """The kernels for one instruction set."""

    file: Path
    instruction_set: str  # avx512 | avx2 | any
    functions: Any  # ctypes' library
    is_asked_for: bool = False  # KVJOBS_KERNELS names the instruction set

    @property
    def fuses(self) -> bool:
        """Whether graphs get its operators. Searches and caches use the other functions in any case."""
        return self.is_asked_for or self.instruction_set in MEASURED

    def describe(self) -> str:
        """A sentence for people: which kernels these are, why, and what uses them."""
        chosen = f"for the instruction set {self.instruction_set}"
        if self.fuses:
            why = f"which {VARIABLE} names" if self.is_asked_for else "the best that this processor has"
            return f"{chosen}, {why}: graphs, searches and caches use them"
        return (
            f"{chosen}, since this processor has neither {' nor '.join(MEASURED)}: searches and caches use them; "
            "graphs stay on onnxruntime's operators, as nobody has measured whether those of kvjobs are faster there "
            f"({VARIABLE}={self.instruction_set} uses them)"
        )


def open_library(file: Path = LIBRARY) -> Library:
    """The library, with the best kernels for this processor or those that the variable KVJOBS_KERNELS names (`off`:
    none). Raises NoKernelsError."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted == OFF:
        raise NoKernelsError(f"{VARIABLE} is {OFF}", f"unset {VARIABLE}")
    functions = load(file)
    chosen = functions.kvjobs_choose_kernels(wanted.encode() or None)
    if chosen is None:
        raise NoKernelsError(f"{VARIABLE} is {wanted!r}, which this processor does not have", f"unset {VARIABLE}")
    return Library(file, chosen.decode(), functions, is_asked_for=bool(wanted))


def load(file: Path) -> Any:
    """The functions of a library that was compiled from the sources beside it. Raises NoKernelsError."""
    if not file.is_file():
        raise NoKernelsError(
            "not compiled when kvjobs was installed",
            "install a C compiler (gcc), then install kvjobs again; or install a wheel that has them",
        )
    try:
        functions = ctypes.CDLL(str(file))
    except OSError as error:
        raise NoKernelsError(f"they cannot be loaded: {error}", "install kvjobs again, on this machine") from None
    functions.kvjobs_sources.restype = functions.kvjobs_choose_kernels.restype = ctypes.c_char_p
    functions.kvjobs_choose_kernels.argtypes = [ctypes.c_char_p]
    if functions.kvjobs_sources().decode() != sources_digest():
        raise NoKernelsError("they were compiled from other sources than those beside them", f"run: {_BUILD}")
    sizes = (ctypes.c_size_t * len(STRUCTS)).in_dll(functions, "kvjobs_struct_sizes")
    if list(sizes) != list(map(ctypes.sizeof, STRUCTS)):
        raise NoKernelsError("their structs have other sizes than those of structs.py", f"run: {_BUILD}")
    functions.kvjobs_sum_powers.restype = None
    functions.kvjobs_sum_powers.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, *[ctypes.c_void_p] * 2]
    calls = functions.kvjobs_best_continuations, functions.kvjobs_copy_rows, functions.kvjobs_lay_out
    for call, struct in zip(calls, STRUCTS, strict=True):
        call.argtypes = [ctypes.POINTER(struct)]
    return functions


def try_kernels() -> str | None:
    """A sentence that says why the compiled kernels are not used; None if they are right. They are tried in a separate
    process, which loads numpy and onnxruntime, and which a wrong kernel may end."""
    # -P: a folder `worker` in the user's current directory must not be imported.
    tried = subprocess.run([sys.executable, "-P", "-c", _TRIAL], capture_output=True, text=True, check=False)
    if tried.returncode == 0:
        return tried.stdout.strip() or None
    last = (tried.stderr.strip().splitlines() or [""])[-1]
    return f"distrusted: the process that tries them {how_it_ended(tried.returncode)}" + (f": {last}" if last else "")


def _fields(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class ContinuationsStruct(ctypes.Structure):
    """`struct continuations`."""

    _fields_ = (
        *_fields(ctypes.c_size_t, "sentences width size count"),
        *_fields(ctypes.c_void_p, "logits factors normalizers before scores rows ids is_sure"),
    )


class RowCopies(ctypes.Structure):
    """`struct row_copies`."""

    _fields_ = (
        *_fields(ctypes.c_size_t, "parts rows heads capacity position"),
        *_fields(ctypes.c_void_p, "memory"),
        *_fields(ctypes.c_size_t, "count"),
        *_fields(ctypes.c_void_p, "to from first last"),
    )


class Layouts(ctypes.Structure):
    """`struct layouts`."""

    _fields_ = (
        *_fields(ctypes.c_size_t, "parts heads position kept_rows cached"),
        *_fields(ctypes.c_size_t, "old_rows old_capacity new_rows new_capacity"),
        *_fields(ctypes.c_void_p, "from to"),
    )


STRUCTS = (ContinuationsStruct, RowCopies, Layouts)  # in the order of library.c
