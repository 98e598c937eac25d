"""The report of `bench.translate` for people.

Knows: rows and wording. Does not know: how they were measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.harness.rows import MILLISECONDS, Row


@dataclass(frozen=True, slots=True)
class Used:
    """An engine that took part in a group of works."""

    group: str
    name: str
    precision: str
    configuration: str
    peak_memory: int  # bytes resident, of its process


def print_report(
    rows: Sequence[Row], used: Sequence[Used], cpu: str, peaks: Mapping[str, float], loads: tuple[float, float]
) -> None:
    """Print rates and ratios, each engine's settings, and the machine."""
    console = Console(width=None if Console().is_terminal else 150)
    table = Table("work", "peer")
    for head in ("ours", "theirs", "ratio", "by CPU time", "ours of peak", "theirs", "ours = fp32", "theirs"):
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(
            row.work, row.peer, _amount(row.ours, row.unit), _amount(row.theirs, row.unit),
            times(row.ratio), times(row.cpu_ratio),
            *map(percent, (row.our_share, row.their_share, row.our_equal, row.their_equal)),
        )  # fmt: skip
    console.print(table)
    console.print("ours and theirs: tokens a second, or milliseconds of a call")
    console.print(
        "of peak: arithmetic done, by the highest that onnxruntime's products reached here, at that precision"
    )
    console.print("= fp32: tokens that are those of transformers in fp32, at their places\n")
    for engine in used:
        memory = f"{engine.peak_memory / 1e6:,.0f} MB"
        console.print(
            f"{engine.group}: {engine.name} {engine.precision} ({memory}): {engine.configuration}", soft_wrap=True
        )
    shown = ", ".join(f"{name} {gflops:,.0f} GFLOP/s" for name, gflops in sorted(peaks.items()))
    console.print(f"\n{cpu}; peaks: {shown}; load average {loads[0]:.2f} before, {loads[1]:.2f} after")


def _amount(number: float, unit: str) -> str:
    return f"{number:,.1f} ms" if unit == MILLISECONDS else f"{number:,.0f}"


def times(ratio: float | None) -> str:
    """A ratio as text; empty for None."""
    return "" if ratio is None else f"{ratio:.2f} x"


def percent(share: float | None) -> str:
    """A share as text; empty for None."""
    return "" if share is None else f"{100 * share:.1f} %"
