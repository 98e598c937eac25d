"""The units of deploy/systemd contain nothing that kvjobs would refuse; read without systemd.
(With it: tests/processes/test_systemd.py.)"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

import pytest

from jobs.queues import Queues
from jobs.settings import SECRET, Settings
from tests.places import CHECKOUT
from tests.unit.test_compose import parse

FOLDER = CHECKOUT / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
PROGRAM = "/opt/kvjobs/bin/kvjobs"
EVERY_UNIT = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
SAME = ("worker", "worker-gpu@")
NOT_COMPARED = ("PrivateDevices", "DevicePolicy", "DeviceAllow", "ExecStart")


def read(unit: Path) -> Mapping[str, Sequence[str]]:
    """The lines of the section [Service], by their key."""
    section = unit.read_text(encoding="utf-8").partition("[Service]")[2].partition("\n[")[0]
    values = defaultdict(list)
    for key, value in re.findall(r"^(\w+)=(.*)$", section, re.MULTILINE):
        values[key].append(value)
    return values


def command(unit: Path) -> list[str]:
    """The arguments of kvjobs."""
    (line,) = read(unit)["ExecStart"]
    program, *arguments = line.replace("%i", "0").split()
    assert program == PROGRAM
    return arguments


def test_there_are_units_for_worker_gpu_dashboard_and_tables() -> None:
    assert {unit.stem for unit in UNITS} == {"kvjobs-worker", "kvjobs-worker-gpu@", "kvjobs-web", "kvjobs-migrate"}


@EVERY_UNIT
def test_the_command_line_takes_the_command(unit: Path) -> None:
    parse(command(unit))


def test_a_gpu_worker_may_serve_the_queues_that_it_is_given() -> None:
    arguments = command(FOLDER / "kvjobs-worker-gpu@.service")
    queues, device = (arguments[arguments.index(option) + 1] for option in ("--queues", "--device"))
    assert Queues.parse(queues, device).has_gpu


@EVERY_UNIT
def test_every_variable_is_a_setting_and_each_secret_a_credential_that_is_loaded(unit: Path) -> None:
    service = read(unit)
    given = dict(item.split("=", 1) for line in service["Environment"] for item in line.split())
    credentials = {line.partition(":")[0] for line in service["LoadCredential"]}
    of_files = {f"KVJOBS_{name.upper()}_FILE" for name in SECRET}

    assert {name for name in given if name.startswith("KVJOBS_")} <= of_files | {
        f"KVJOBS_{field.name.upper()}" for field in fields(Settings)
    }
    assert {value.removeprefix("%d/") for name, value in given.items() if name in of_files} == credentials
    assert not any(re.search(r"://[^/]*:[^/]*@", value) for value in given.values())
    assert given["KVJOBS_HOME"] == f"/var/lib/{service['StateDirectory'][0]}"


@EVERY_UNIT
def test_no_unit_runs_as_root_has_a_capability_or_writes_beyond_its_home(unit: Path) -> None:
    service = read(unit)

    assert service["User"] == ["kvjobs"]
    assert service["CapabilityBoundingSet"] == [""]
    assert service["NoNewPrivileges"] == service["PrivateTmp"] == service["ProtectHome"] == ["yes"]
    assert service["ProtectSystem"] == ["strict"]
    assert "ReadWritePaths" not in service


@pytest.mark.parametrize("name", SAME)
def test_a_worker_is_left_alone_after_a_drain_and_survives_the_end_of_its_child(name: str) -> None:
    """A drained worker ends with 0. By default systemd ends a service whose child is killed for lack of memory."""
    service = read(FOLDER / f"kvjobs-{name}.service")

    assert service["Restart"] == ["on-failure"]
    assert service["OOMPolicy"] == ["continue"]
    assert service["KillMode"] == ["mixed"]
    assert int(service["TimeoutStopSec"][0]) >= 40


def test_the_units_differ_in_their_commands_and_devices_alone() -> None:
    first, second = (
        {key: value for key, value in read(FOLDER / f"kvjobs-{name}.service").items() if key not in NOT_COMPARED}
        for name in SAME
    )

    assert first == second
