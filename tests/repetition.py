"""How often tests repeat that try many cases: little by default, and the same each time.

KVJOBS_TEST_LONG=1 is the long form, a step of CI: ten times as many random examples, drawn anew; whole grids. A larger
number multiplies further. The tests that repeat have the marker `long`: `KVJOBS_TEST_LONG=1 pytest -n auto -m long`.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

LONG = int(os.environ.get("KVJOBS_TEST_LONG", "0"))
FACTOR = 10 * LONG or 1
EXAMPLES = 30  # of a test of hypothesis that says no number of its own

T = TypeVar("T")

settings.register_profile(
    "kvjobs", max_examples=EXAMPLES * FACTOR, deadline=None, derandomize=not LONG, database=None, print_blob=True
)
settings.load_profile("kvjobs")


def times(number: int) -> int:
    """`number`, or its multiple in the long form."""
    return number * FACTOR


def share(cases: Sequence[T], index: int, of: int) -> Sequence[T]:
    """Every `of`-th case from `index` on, so that `of` tests share them; in the long form each test has all."""
    return cases if LONG else cases[index::of]
