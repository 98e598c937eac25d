"""The report of `bench.families` for people.

Knows: rows and wording. Does not know: how they were measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.harness.rows import Row
from bench.harness.tables.rates_table import print_rates


@dataclass(frozen=True, slots=True)
class Used:
    """An engine that took part in the work of a family."""

    family: str
    name: str
    precision: str
    configuration: str
    peak_memory: int  # bytes resident, of its process, the search for its settings included


def print_report(rows: Sequence[Row], used: Sequence[Used], cpu: str, loads: tuple[float, float]) -> None:
    """Print rates and ratios, each engine's settings, and the machine."""
    engines = [
        f"{one.family}: {one.name} {one.precision} ({one.peak_memory / 1e6:,.0f} MB): {one.configuration}"
        for one in used
    ]
    print_rates(rows, engines, cpu, loads)
