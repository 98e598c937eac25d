"""The fastest of some settings.

Knows: a clock. Does not know: what a setting is.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from jobs.system.process import available_cores

Setting = TypeVar("Setting")

_MOST_ROUNDS = 10
_ENOUGH_S = 1.0  # of all rounds of a setting; the first also warms up
_LONG_S = 10.0  # of a setting's first round: so long that warming up does not matter


def fastest(
    settings: Sequence[Setting], run: Callable[[Setting], object], clock: Callable[[], float] | None = None
) -> Setting:
    """The setting whose best run took the fewest seconds. All are run in turns, so that what else the machine does
    meets all of them; short runs are run more often. On one core the clock is the processor time of this process, which
    other work does not touch."""
    if len(settings) == 1:
        return settings[0]
    clock = clock or (time.process_time if available_cores() == 1 else time.perf_counter)
    best = [float("inf")] * len(settings)
    begun = clock()
    for number in range(_MOST_ROUNDS):
        enough = float("inf") if number == 0 else _LONG_S if number == 1 else _ENOUGH_S
        if clock() - begun >= enough * len(settings):
            break
        for place, setting in enumerate(settings):
            started = clock()
            run(setting)
            best[place] = min(best[place], clock() - started)
    return settings[best.index(min(best))]
