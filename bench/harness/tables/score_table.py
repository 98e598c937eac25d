"""The report of `bench.score` for people.

Knows: rows and wording. Does not know: how they were measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.harness.rows import Row
from bench.harness.tables.table import times


@dataclass(frozen=True, slots=True)
class Used:
    """An engine that took part in a group of works."""

    group: str
    name: str
    configuration: str
    peak_memory: int  # bytes resident, of its process
    drift: float | None = None  # greatest difference from transformers in fp32, nats a token


def print_report(rows: Sequence[Row], used: Sequence[Used], cpu: str, loads: tuple[float, float]) -> None:
    """Print rates and ratios, each engine's settings, and the machine."""
    console = Console(width=None if Console().is_terminal else 150)
    table = Table("work", "peer")
    for head in ("ours tokens/s", "theirs", "ratio", "by CPU time"):
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(
            row.work, row.peer, f"{row.ours:,.0f}", f"{row.theirs:,.0f}", times(row.ratio), times(row.cpu_ratio)
        )
    console.print(table)
    for engine in used:
        memory = f"{engine.peak_memory / 1e6:,.0f} MB"
        drift = "" if engine.drift is None else f", at most {engine.drift:.1e} nats a token from transformers in fp32"
        console.print(f"{engine.group}: {engine.name} ({memory}{drift}): {engine.configuration}", soft_wrap=True)
    console.print(f"\n{cpu}; load average {loads[0]:.2f} before, {loads[1]:.2f} after")
