"""The kernels with which CTranslate2 is fastest on this machine.

Knows: the environment variables that choose them, which have to be set before its process starts. Does not know:
models.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.harness.machine import cpu_has, cpu_is_intel

_GAIN = 1.02  # what other kernels have to gain to be taken


def fastest_kernels(
    file: Path, rate: Callable[[Mapping[str, str]], float], say: Callable[[str], None]
) -> dict[str, str]:
    """The variables, kept in `file`; if that is missing, each choice is tried. `rate`: tokens by second of processor
    time with some variables set."""
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(_tried(rate, say)), encoding="utf-8")
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _tried(rate: Callable[[Mapping[str, str]], float], say: Callable[[str], None]) -> dict[str, str]:
    """Its own choice is AVX2 where AVX-512 was 8 % faster (Xeon with AMX, int8, 64 rows), and MKL on processors of
    Intel, oneDNN on others."""
    forced = {"CT2_FORCE_CPU_ISA": "AVX512"}
    other = {**forced, "CT2_USE_MKL": "0" if cpu_is_intel() else "1"}
    best: dict[str, str] = {}
    best_rate = 0.0
    for environment in ({}, forced, other) if cpu_has("avx512f") else ({},):
        found = rate(environment)
        say(f"    {environment or 'its own choice of kernels'}: {found:,.0f} tokens by second of processor time")
        if found > _GAIN * best_rate:
            best, best_rate = environment, found
    return best
