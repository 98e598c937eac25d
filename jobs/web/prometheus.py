"""The text format of Prometheus, 0.0.4: families of samples, each with its help, its type and its labels.

Knows: the format. Does not know: which numbers there are.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from jobs.visible_text import visible

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    """One number, and what it is a number of."""

    value: float
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """All samples of one name."""

    name: str  # with its unit; a counter ends in _total
    kind: Literal["gauge", "counter"]
    help: str
    samples: Sequence[Sample]


def exposition(families: Iterable[Family]) -> str:
    """All families, as a scrape reads them. A family without samples keeps its help: it says that there are none."""
    return "".join(line + "\n" for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    explained = family.help.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {family.name} {explained}"
    yield f"# TYPE {family.name} {family.kind}"
    for sample in family.samples:
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels.items())
        yield (
            f"{family.name}{{{labels}}} {_number(sample.value)}" if labels else f"{family.name} {_number(sample.value)}"
        )


@lru_cache(maxsize=4096)  # the same few values stand in thousands of lines
def _escaped(value: str) -> str:
    """A label's value: what could hide is made visible first, since names come from people."""
    return visible(value).replace("\\", r"\\").replace('"', r"\"")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)
