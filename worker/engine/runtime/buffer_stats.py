"""The memory that buffers hold, and how often it was allocated and reused."""

import dataclasses
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class BufferStats:
    """The counts of one buffer, or the sums over several. The heartbeat's thread reads them while the lane works."""

    num_bytes: int = 0  # held, used or not
    allocations: int = 0  # times that memory was allocated
    reuses: int = 0  # times that the memory was large enough

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.num_bytes + other.num_bytes, self.allocations + other.allocations, self.reuses + other.reuses
        )

    def freed(self) -> Self:
        """The same counts after the memory was freed."""
        return dataclasses.replace(self, num_bytes=0)
