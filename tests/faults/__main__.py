"""Run every fault scenario, and print whether the invariants held.

    python -m tests.faults                                  the short form: each fault on one backend or two
    python -m tests.faults --long --json faults.json        the long form
    python -m tests.faults --only kill-9 --tries 20 --database sqlite

`recovered` is the time from a fault (or from the end of an outage) to the next recorded batch, `gap` the longest time
between two recorded batches, `redone` the number of documents that were computed again. Exits with 1 if an invariant
did not hold.
"""

import argparse
import dataclasses
import json
import signal
import statistics
import sys
import tempfile
from pathlib import Path

import pytest

from tests.faults.scenarios import SCENARIOS, Backend, Scenario, TrialResult, run_scenario

DOCUMENTS, DOCUMENTS_LONG = 240, 600
GRAND = "grand"


def main() -> int:
    """The exit code."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # runs the context managers that end servers and workers
    results: list[TrialResult] = []
    print(HEAD)
    for scenario in SCENARIOS:
        if options.only and scenario.name not in options.only:
            continue
        asked = options.long or options.database or options.backend or options.only
        for backend in scenario.backends if asked else scenario.short:
            if options.database and (backend == Backend.SQLITE) != (options.database == "sqlite"):
                continue
            if options.backend and backend != options.backend:
                continue
            results += _try(scenario, backend, options)
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(tried) for tried in results], indent=1) + "\n")
    return 0 if all(tried.holds for tried in results) else 1


def _try(scenario: Scenario, backend: Backend, options: argparse.Namespace) -> list[TrialResult]:
    tries = options.tries or (scenario.long_tries if options.long else scenario.tries)
    documents = options.documents or (DOCUMENTS_LONG if options.long else DOCUMENTS)
    if scenario.name == GRAND and options.long and not options.documents:
        documents = 20_000
    tried: list[TrialResult] = []
    for seed in range(options.seed, options.seed + tries):
        with tempfile.TemporaryDirectory(prefix="kvjobs-fault-", ignore_cleanup_errors=True) as folder:
            try:
                tried.append(
                    run_scenario(
                        scenario, backend, Path(folder) / "trial", seed=seed, documents=documents, long=options.long
                    )
                )
            except pytest.skip.Exception as reason:
                print(f"{scenario.name:<22}{backend:<12}{'-':>5}  left out: {reason}", flush=True)
                return tried
        for violation in tried[-1].violations:
            print(f"  {scenario.name} on {backend}, seed {seed}: {violation}", flush=True)
    print(_row(scenario.name, backend, tried), flush=True)
    return tried


HEAD = (
    f"{'fault':<22}{'backend':<12}{'tried':>5}{'held':>6}  {'recovered (s)':<16}{'gap (s)':>8}{'redone':>8}{'batch':>7}"
    f"{'seconds':>9}  notes"
)


def _row(name: str, backend: str, tried: list[TrialResult]) -> str:
    recoveries = [seconds for one in tried for seconds in one.recoveries_s]
    recovered = f"{statistics.median(recoveries):.1f} / {max(recoveries):.1f}" if recoveries else "-"
    return (
        f"{name:<22}{backend:<12}{len(tried):>5}{sum(one.holds for one in tried):>6}  {recovered:<16}"
        f"{max(one.longest_gap_s for one in tried):>8.1f}{max(one.redone for one in tried):>8}"
        f"{max(one.batch for one in tried):>7}{sum(one.seconds for one in tried):>9.1f}  {'; '.join(tried[-1].notes)}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument("--long", action="store_true", help="more tries, more documents, longer outages")
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--tries", type=int)
    parser.add_argument("--documents", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=["sqlite", "postgresql"])
    parser.add_argument("--backend", choices=[backend.value for backend in Backend])
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
