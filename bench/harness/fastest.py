"""The fastest of some settings.

Knows: a clock. Does not know: what a setting is.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

Setting = TypeVar("Setting")

_LEAST_ROUNDS, _MOST_ROUNDS = 2, 10  # the first also warms up
_ENOUGH_S = 1.0  # for each setting


def fastest(
    settings: Sequence[Setting], run: Callable[[Setting], object], clock: Callable[[], float] = time.perf_counter
) -> Setting:
    """The setting whose best run took the fewest seconds. All are run in turns, so that what else the machine does
    meets all of them; short runs are run more often."""
    if len(settings) == 1:
        return settings[0]
    best = [float("inf")] * len(settings)
    begun = clock()
    for number in range(_MOST_ROUNDS):
        if number >= _LEAST_ROUNDS and clock() - begun >= _ENOUGH_S * len(settings):
            break
        for place, setting in enumerate(settings):
            started = clock()
            run(setting)
            best[place] = min(best[place], clock() - started)
    return settings[best.index(min(best))]
