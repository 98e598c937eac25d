"""Print the line coverage of each package from coverage's JSON report.

    python .ci/coverage_by_package.py coverage.json

A report, not a gate: no number here fails the check. Processes that the tests start are not measured.
"""

import json
import sys
from collections import Counter
from pathlib import Path, PurePath


def main(report: Path) -> None:
    statements: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    for name, file in json.loads(report.read_text())["files"].items():
        package = "/".join(PurePath(name).parent.parts[:2])
        statements[package] += file["summary"]["num_statements"]
        covered[package] += file["summary"]["covered_lines"]
    for package in sorted(statements):
        if statements[package]:
            print(row(package, covered[package], statements[package]))
    print(row("all", covered.total(), statements.total()))


def row(name: str, covered: int, statements: int) -> str:
    return f"{name:<24} {covered:6,} of {statements:6,} lines {covered / statements:7.1%}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
