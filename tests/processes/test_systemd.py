"""What systemd itself says of the units of deploy/systemd."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import CHECKOUT

UNITS = sorted((CHECKOUT / "deploy" / "systemd").glob("*.service"))
EVERY_UNIT = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
MOST_EXPOSED = 25  # of 100: systemd's own mark, in which below 30 is "OK"


@pytest.fixture
def installed(tmp_path: Path, unit: Path) -> Path:
    """The unit with the kvjobs of this environment, as systemd checks that the program is there."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (apt-get install systemd)")
    name = unit.name.replace("@.", "@0.")
    text = unit.read_text(encoding="utf-8").replace(
        "/opt/kvjobs/bin/kvjobs", str(Path(sys.executable).with_name("kvjobs"))
    )
    (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / name


def analyze(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False, timeout=60)


@EVERY_UNIT
def test_systemd_reads_the_unit_without_a_complaint(installed: Path) -> None:
    done = analyze("verify", "--man=no", "--recursive-errors=no", str(installed))

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@EVERY_UNIT
def test_systemd_finds_little_that_the_service_could_do_to_the_machine(installed: Path) -> None:
    done = analyze("security", "--offline=yes", f"--threshold={MOST_EXPOSED}", "--json=short", str(installed))

    rows = json.loads(done.stdout)
    assert done.returncode == 0, [row["name"] for row in rows if float(row.get("exposure") or 0) > 0.2]


def test_systemd_makes_the_user_of_the_services(tmp_path: Path) -> None:
    if shutil.which("systemd-sysusers") is None:
        pytest.skip("systemd-sysusers is not installed (apt-get install systemd)")
    (tmp_path / "etc").mkdir()
    file = CHECKOUT / "deploy" / "systemd" / "kvjobs.sysusers"

    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", "-"], input=file.read_bytes(), check=True, timeout=60)

    (line,) = (tmp_path / "etc" / "passwd").read_text(encoding="utf-8").splitlines()
    name, _, _, _, _, home, shell = line.split(":")
    assert (name, home, Path(shell).name) == ("kvjobs", "/var/lib/kvjobs", "nologin")
