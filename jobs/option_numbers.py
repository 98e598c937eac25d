"""Which options of jobs are numbers, and within which bounds. Does not know: which task has them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from jobs.errors import SpecError
from jobs.number_ranges import Real, Whole

COLDEST = 1e-6  # temperature: logits divided by much less than this are no numbers
# What the options that are numbers may be, whichever task has them.
NUMBERS: Mapping[str, Whole | Real] = {
    "beam_size": Whole(1, 1000, "1 is greedy search"),
    "n_best": Whole(1, 1000, "1 keeps the best hypothesis alone"),
    "length_penalty": Real(-10, 10, "0 compares sums of log-probabilities, 1 their means"),
    "max_new_tokens": Whole(1),
    "batch_size": Whole(1, 65_536),
    "max_length": Whole(2, why="a token is scored after at least one other"),
    "stride": Whole(1),
    "fusion": Real(0, 1, "0 is the model alone, 1 the first stage"),
    "temperature": Real(0, 100, "0 is greedy search"),
    "top_p": Real(0, 1, "1 draws from all tokens", without_least=True),
    "top_k": Whole(0, why="0 draws from all tokens"),
    "seed": Whole(0, 2**63 - 1),
}


def check_numbers(options: Any) -> None:
    """Raise SpecError where a field of the options (a dataclass) is a number out of its bounds."""
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name in NUMBERS and value is not None:
            try:
                NUMBERS[field.name].check(value)
            except SpecError as error:
                raise SpecError(f"{field.name}: {error}") from None
