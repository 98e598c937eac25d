"""The report of `bench.generate` for people.

Knows: rows and wording. Does not know: how they were measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.harness.rows import Row
from bench.harness.tables.table import percent, times


@dataclass(frozen=True, slots=True)
class Used:
    """An engine that took part."""

    name: str
    configuration: str
    peak_memory: int  # bytes resident, of its process, the search for its settings included
    seconds: float  # of a round, the median
    cpu_s: float


def print_report(rows: Sequence[Row], used: Sequence[Used], cpu: str, loads: tuple[float, float]) -> None:
    """Print rates and ratios, each engine's settings, and the machine."""
    console = Console(width=None if Console().is_terminal else 150)
    table = Table("work", "peer")
    for head in ("ours tokens/s", "theirs", "ratio", "by CPU time", "ours = fp32", "theirs"):
        table.add_column(head, justify="right")
    for row in rows:
        rates = f"{row.ours:,.0f}", f"{row.theirs:,.0f}", times(row.ratio), times(row.cpu_ratio)
        table.add_row(row.work, row.peer, *rates, percent(row.our_equal), percent(row.their_equal))
    console.print(table)
    console.print("= fp32: tokens that are those of transformers in fp32, at their places\n")
    for engine in used:
        spent = f"{engine.peak_memory / 1e6:,.0f} MB, {engine.seconds:.3g} s, {engine.cpu_s:.3g} s of processor time"
        console.print(f"{engine.name} ({spent}): {engine.configuration}", soft_wrap=True)
    console.print(f"\n{cpu}; load average {loads[0]:.2f} before, {loads[1]:.2f} after")
