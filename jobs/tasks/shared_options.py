"""The options that several tasks have."""

import enum
import re
from dataclasses import dataclass

from jobs.errors import SpecError
from jobs.near_names import meant


class Timing(enum.StrEnum):
    """How detailed the stored timings are."""

    STEPS = "steps"  # one row per model call
    BATCHES = "batches"  # one row per phase and batch
    OFF = "off"


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """When a decoder reuses the keys and values of earlier steps.

    `auto` and `on` differ only for a graph without a cache: `on` refuses it. `hybrid:N` runs the whole prefix for the
    first N tokens and uses the cache from then on.
    """

    mode: str = "auto"  # auto | on | off | hybrid
    uncached_steps: int = 0  # N of hybrid:N

    @classmethod
    def parse(cls, text: str) -> "CachePolicy":
        """Parse `auto`, `on`, `off` or `hybrid:N`. Raises SpecError for anything else."""
        if text in ("auto", "on", "off"):
            return cls(text)
        if match := re.fullmatch(r"hybrid:([0-9]{1,4})", text):
            return cls("hybrid", int(match[1]))
        raise SpecError(
            f"cache is {text!r}{meant(text, ('auto', 'on', 'off'))}; it can be auto, on, off or hybrid:N (N uncached "
            "steps first)"
        )

    def __str__(self) -> str:
        return f"hybrid:{self.uncached_steps}" if self.mode == "hybrid" else self.mode


AUTO_CACHE = CachePolicy()
