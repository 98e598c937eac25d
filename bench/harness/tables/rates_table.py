"""Rates beside those of peers, as `bench.generate` and `bench.families` print them.

Knows: rows and wording. Does not know: how they were measured, which engines took part.
"""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.harness.rows import Row
from bench.harness.tables.table import percent, times


def print_rates(rows: Sequence[Row], engines: Sequence[str], cpu: str, loads: tuple[float, float]) -> None:
    """Print rates and ratios, a line for each engine, and the machine."""
    console = Console(width=None if Console().is_terminal else 150)
    table = Table("work", "peer")
    for head in ("ours tokens/s", "theirs", "ratio", "by CPU time", "ours = fp32", "theirs"):
        table.add_column(head, justify="right")
    for row in rows:
        rates = f"{row.ours:,.0f}", f"{row.theirs:,.0f}", times(row.ratio), times(row.cpu_ratio)
        table.add_row(row.work, row.peer, *rates, percent(row.our_equal), percent(row.their_equal))
    console.print(table)
    console.print("= fp32: tokens that are those of transformers in fp32, at their places\n")
    for engine in engines:
        console.print(engine, soft_wrap=True, markup=False)
    console.print(f"\n{cpu}; load average {loads[0]:.2f} before, {loads[1]:.2f} after")
