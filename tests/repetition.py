"""How many cases the tests with random or combined cases try: few by default, and the same in every run.

KVJOBS_TEST_LONG=1 is the long form, a step of CI: ten times as many random examples, new in each run, and all
combinations. A larger number multiplies further. These tests are marked `long`: `KVJOBS_TEST_LONG=1 pytest -m long`.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings

LONG = int(os.environ.get("KVJOBS_TEST_LONG", "0"))
FACTOR = 10 * LONG or 1
# Of a hypothesis test without a number of its own. Those of the short form are the same in every run, so more of them
# find something only in the run after a change.
EXAMPLES = 20

T = TypeVar("T")

settings.register_profile(
    "kvjobs",
    max_examples=FACTOR * EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no failure
    derandomize=not LONG,
    database=None,
    print_blob=True,
)
settings.load_profile("kvjobs")


def times(number: int) -> int:
    """`number`, multiplied in the long form."""
    return number * FACTOR


def cover(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """As few cases as have each value of each axis: for axes that do not act upon one another."""
    values = [list(axis) for axis in axes]
    return [tuple(one[index % len(one)] for one in values) for index in range(max(map(len, values)))]


def share(cases: Sequence[T], index: int, of: int) -> Sequence[T]:
    """Every `of`-th case from `index` on, so that `of` tests divide the cases; in the long form each test has all."""
    return cases if LONG else cases[index::of]
