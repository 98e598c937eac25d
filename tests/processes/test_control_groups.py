"""Limits of a real control group."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.control_group import control_group
from tests.places import CHECKOUT


@pytest.mark.may_skip
@pytest.mark.parametrize(("milliseconds", "quota"), [(150, "1.5"), (50, "0.5")])
def test_a_process_finds_the_quota_of_its_control_group(tmp_path: Path, milliseconds: int, quota: str) -> None:
    limits = {"cpu.cfs_quota_us": f"{milliseconds}000", "cpu.max": f"{milliseconds}000 100000"}
    program = "from jobs.system.process import cpu_quota; print(cpu_quota())"

    with control_group("cpu", limits) as inside:
        found = subprocess.check_output([*inside, sys.executable, "-c", program], cwd=CHECKOUT, text=True)

    assert found.strip() == quota
