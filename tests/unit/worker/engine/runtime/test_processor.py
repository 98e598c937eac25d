"""The processor of a report."""

from pathlib import Path

import pytest

from worker.engine.runtime import device


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        (
            "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz: fast\n\nprocessor\t: 1\nmodel name\t: Other\n",
            "Some CPU @ 2 GHz: fast",
        ),
        ("processor\t: 0\nBogoMIPS\t: 50.00\n", ""),
        (None, ""),
    ],
)
def test_the_name_is_that_of_the_first_core(tmp_path: Path, cpuinfo: str | None, name: str) -> None:
    file = tmp_path / "cpuinfo"
    if cpuinfo is not None:
        file.write_text(cpuinfo)

    assert device._name_in(file) == name
