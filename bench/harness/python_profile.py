"""What Python takes of a step, by kind of code.

Knows: cProfile, and in which files the engine searches and binds. Does not know: what is translated.
"""

import cProfile
import pstats
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

MODEL, SEARCH, SLOTS, REST = "model", "search", "slots and binding", "the rest"
_SLOTS_FILES = {
    "decoder_stage.py", "device_kv_slots.py", "host_arrays.py", "kv_slots.py", "lane_decoder.py",
}  # fmt: skip
_RUN = {"run", "run_with_iobinding"}  # of onnxruntime's sessions

Place = tuple[str, int, str]  # file, line and name of a function, as pstats has them


def seconds_by_kind(function: Callable[[], object]) -> Counter[str]:
    """Seconds of processor time of each kind while `function` runs. What numpy and Python's own functions take counts
    where they are called from. The profiler's own time is in it, the more the smaller the functions are."""
    profile = cProfile.Profile(time.process_time)
    profile.runcall(function)
    return by_kind(pstats.Stats(profile).stats)  # type: ignore[attr-defined]  # missing in typeshed


def by_kind(stats: Mapping[Place, Any]) -> Counter[str]:
    """The same of what pstats has: for each function its calls, own and cumulative seconds, and those by caller."""
    found: Counter[str] = Counter()
    for place, (_, _, _, cumulative, callers) in stats.items():
        kind = kind_of(place)
        if kind is None:
            continue
        found[kind] += cumulative
        for caller, (_, _, _, from_there) in callers.items():
            above = kind_of(caller)
            if above is not None:
                found[above] -= from_there
    return found


def kind_of(place: Place) -> str | None:
    """The kind of a function; None if its time is its caller's."""
    file, _, name = place
    path = PurePath(file)
    if path.name == "onnxruntime_inference_collection.py" and name in _RUN:
        return MODEL
    if "worker" not in path.parts:
        return None
    if path.name in _SLOTS_FILES:
        return SLOTS
    return SEARCH if path.parent.name == "search" else REST
