"""What buffers cost: the memory they hold, and how often it had to be allocated."""

import dataclasses
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class BufferStats:
    """Of one buffer, or summed over several. Another thread may ask for them while the lane works."""

    num_bytes: int = 0  # held, used or not
    allocations: int = 0  # times that memory was allocated
    reuses: int = 0  # times that all the memory needed was there

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.num_bytes + other.num_bytes, self.allocations + other.allocations, self.reuses + other.reuses
        )

    def freed(self) -> Self:
        """The same counts, of memory that was given back."""
        return dataclasses.replace(self, num_bytes=0)
