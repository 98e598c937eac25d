"""
Compiles the kernels: `python -m worker.kernels.build`, and the hook that a build runs (`build_hook.py`).

Knows: compilers and their flags. Imports the standard library alone: it runs before anything is installed.
"""

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from worker.kernels.files import FOLDER, LIBRARY, sources_digest
from worker.kernels.library import NoKernelsError, load

# No contraction of a product and a sum that the source does not ask for: int8 models give the integers of onnxruntime's
# operators, which round twice.
_FLAGS = ("-fPIC", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra")
_INSTRUCTION_SETS = {
    "any": (),
    "avx2": ("-mavx2", "-mfma"),
    "avx512": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mfma"),
}
_PLAIN = ("attention_operators.c", "finish_operator.c", "cache.c", "library.c")  # for any instruction set
_X86_64 = ("x86_64", "amd64")
ZIG = "ziglang"  # a C compiler as a Python package, for machines that have none, and for wheels (MIT)
# zig compiles for the builder's own processor, and with sanitizers, unless told otherwise.
_ZIG_CC = (sys.executable, "-m", ZIG, "cc", "-mcpu=baseline", "-fno-sanitize=undefined")
# A wheel's platform: the machine, and the oldest glibc that it runs on (PEP 600).
_PLATFORM = re.compile(r"manylinux_(?P<glibc>\d+_\d+)_(?P<machine>x86_64|aarch64)")


class NotCompiledError(Exception):
    """No compiler, or one that failed: the message says which."""


def compiler() -> list[str] | None:
    """The command of a C compiler: $CC (with -O or -g, if it is for finding errors), one on PATH, or zig's where it is
    installed; None: there is none."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return [path]
    return [*_ZIG_CC] if find_spec(ZIG) else None


def compiler_for(tag: str) -> tuple[list[str], str]:
    """The command of zig's C compiler for a wheel's platform tag, such as manylinux_2_17_aarch64, and its machine;
    raise NotCompiledError for a tag of another kind."""
    found = _PLATFORM.fullmatch(tag)
    if found is None:
        raise NotCompiledError(
            f"{tag!r} is no platform of wheels with kernels: manylinux_2_17_x86_64 is, or ..._aarch64"
        )
    if not find_spec(ZIG):
        raise NotCompiledError("zig is not installed, which compiles for wheels: pip install -e '.[wheels]'")
    machine, glibc = found["machine"], found["glibc"].replace("_", ".")
    return [*_ZIG_CC, "-target", f"{machine}-linux-gnu.{glibc}"], machine


def build(into: Path = LIBRARY, *, tag: str = "") -> None:
    """Compile the kernels into a shared library, for this machine or, by zig, for a wheel's platform tag; raise
    NotCompiledError, and leave none behind."""
    try:
        _build(into, tag)
    except NotCompiledError:
        into.unlink(missing_ok=True)
        raise


def is_up_to_date(library: Path = LIBRARY) -> bool:
    """Whether it is what `build` would make: processes that have it open keep it then."""
    try:
        load(library)
    except NoKernelsError:
        return False
    return True


def _build(into: Path, tag: str) -> None:
    command, machine = compiler_for(tag) if tag else (compiler(), platform.machine().lower())
    if command is None:
        raise NotCompiledError("there is no C compiler (cc, gcc, clang)")
    is_x86 = machine in _X86_64
    with (
        tempfile.TemporaryDirectory() as name,
        ThreadPoolExecutor() as pool,
    ):  # a compiler a file: half as long on two cores
        objects = []
        for instruction_set, flags in _INSTRUCTION_SETS.items():
            if instruction_set == "any" or is_x86:
                defines = (f'-DNAME="{instruction_set}"', f"-DKERNELS=kernels_{instruction_set}")
                made = Path(name, f"{instruction_set}.o")
                objects.append(pool.submit(_compile, command, "kernels.c", [*flags, *defines], made))
        digest = f'-DSOURCES="{sources_digest()}"'
        for source in _PLAIN:
            objects.append(pool.submit(_compile, command, source, [digest], Path(name, source).with_suffix(".o")))
        # Under another name first: a process may have the old one open.
        made = Path(name, into.name)
        symbols = [] if "-g" in command else ["-s"]
        _run([*command, "-shared", *symbols, "-o", str(made), *(str(compiled.result()) for compiled in objects)])
        shutil.copy2(made, part := into.with_name(f"{into.name}.part"))
        part.replace(into)


def _compile(command: Sequence[str], source: str, flags: Sequence[str], made: Path) -> Path:
    optimization = [] if any(part.startswith("-O") for part in command) else ["-O3"]
    _run([*command, *optimization, *_FLAGS, *flags, "-c", str(FOLDER / source), "-o", str(made)])
    return made


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotCompiledError(f"{shlex.join(command)} could not be started: {error.strerror}") from None
    if done.returncode:
        raise NotCompiledError(f"{shlex.join(command)} failed: {done.stderr.strip()[-2000:]}")


if __name__ == "__main__":
    try:
        build()
    except NotCompiledError as error:
        sys.exit(f"the kernels were not compiled: {error}")
    print(LIBRARY)
