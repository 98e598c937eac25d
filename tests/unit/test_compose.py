"""The compose file contains nothing that kvjobs would refuse; checked without a container engine."""

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import click
import pytest
from ruamel.yaml import YAML

from jobs.cli.main import PROGRAM, cli
from jobs.queues import Queues
from jobs.settings import OTHER_VARIABLES, SECRET, Settings
from tests.places import CHECKOUT

FILE = CHECKOUT / "docker-compose.yml"

COMPOSE: Mapping[str, Any] = YAML(typ="safe", pure=True).load(FILE.read_text(encoding="utf-8"))

SERVICES: Mapping[str, Any] = COMPOSE["services"]

OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("kvjobs:")}

SPOOLING = ("cli", "web")  # what they are sent is copied first

PROMETHEUS = (CHECKOUT / "deploy" / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")

DOCKERFILE = (CHECKOUT / "Dockerfile").read_text(encoding="utf-8")


def kvjobs_calls() -> dict[str, list[str]]:
    """The arguments of each call of `kvjobs` in the compose file."""
    calls = {f"{name}: command": service["command"] for name, service in OURS.items() if "command" in service}
    for name, service in SERVICES.items():
        how, program, *arguments = service.get("healthcheck", {}).get("test", ["NONE", ""])
        assert how in ("CMD", "NONE"), f"{name}: our image is used without a shell"
        if program == PROGRAM:
            calls[f"{name}: healthcheck"] = arguments
    return calls


CALLS = kvjobs_calls()


def test_every_service_that_runs_kvjobs_is_checked() -> None:
    assert {
        "migrate: command",
        "worker: command",
        "worker-gpu: command",
        "worker: healthcheck",
        "web: command",
    } <= CALLS.keys()


@pytest.mark.parametrize("arguments", CALLS.values(), ids=CALLS.keys())
def test_the_command_line_takes_each_command(arguments: list[str]) -> None:
    parse(arguments)


def test_the_commands_in_the_fleet_page_exist() -> None:
    page = (CHECKOUT / "docs" / "fleet.md").read_text(encoding="utf-8")
    shown = re.findall(r"^    (?:docker compose run .*? cli|kvjobs) (?!=)([^|>\n]*)", page, re.MULTILINE)
    assert len(shown) > 5
    for line in shown:
        parse(shlex.split(line, comments=True))


def test_a_gpu_worker_may_serve_the_queues_that_it_is_given() -> None:
    arguments = OURS["worker-gpu"]["command"]
    queues, device = (arguments[arguments.index(option) + 1] for option in ("--queues", "--device"))
    assert Queues.parse(queues, device).has_gpu


def test_the_dashboard_asks_for_a_token_and_is_healthy_by_its_own_address() -> None:
    web = OURS["web"]
    port = web["command"][web["command"].index("--port") + 1]

    assert web["environment"]["KVJOBS_WEB_TOKEN_FILE"] == "/run/secrets/web_token"
    assert web["ports"] == [f"127.0.0.1:${{KVJOBS_WEB_PORT:-8650}}:{port}"]
    assert f"http://127.0.0.1:{port}/healthz" in web["healthcheck"]["test"][-1]
    compile(web["healthcheck"]["test"][-1], "healthcheck", "exec")


def test_every_variable_of_the_compose_file_is_known_to_kvjobs() -> None:
    named = set(re.findall(r"\$\{(KVJOBS_\w+)", FILE.read_text(encoding="utf-8")))

    assert named <= OTHER_VARIABLES | {f"KVJOBS_{field.name.upper()}" for field in fields(Settings)}


@pytest.mark.parametrize("name", OURS)
def test_every_setting_is_a_setting_of_kvjobs(name: str) -> None:
    known = {f"KVJOBS_{field.name.upper()}" for field in fields(Settings)} | {
        f"KVJOBS_{secret.upper()}_FILE" for secret in SECRET
    }
    given = [variable for variable in OURS[name]["environment"] if variable.startswith("KVJOBS_")]
    assert given
    assert set(given) <= known
    assert set(re.findall(r"\bKVJOBS_[A-Z_]+(?==)", DOCKERFILE)) <= known


@pytest.mark.parametrize("name", SERVICES)
def test_a_secret_is_a_file_that_the_service_is_given(name: str) -> None:
    service = SERVICES[name]
    named = [value for value in service.get("environment", {}).values() if str(value).startswith("/run/secrets/")]
    named += re.findall(r"/run/secrets/\w+", PROMETHEUS) if name == "prometheus" else []
    assert {path.removeprefix("/run/secrets/") for path in named} == set(service.get("secrets", []))
    assert set(service.get("secrets", [])) <= COMPOSE["secrets"].keys()
    for variable, value in service.get("environment", {}).items():
        assert "PASSWORD" not in variable or variable.endswith("_FILE")
        assert not re.search(r"://[^/]*:[^/]*@", str(value)), f"{variable} holds a password"


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_runs_as_root_or_can_become_root(name: str) -> None:
    service = SERVICES[name]
    last_user = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)[-1]
    user = service.get("user") or (last_user if name in OURS else "root")
    assert user.partition(":")[0] not in ("root", "0")
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]


@pytest.mark.parametrize("name", SERVICES)
def test_no_port_is_published_beyond_this_machine(name: str) -> None:
    assert SERVICES[name].get("network_mode") is None
    for port in SERVICES[name].get("ports", []):
        assert isinstance(port, str)
        assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", OURS)
def test_services_of_kvjobs_write_only_to_memory_and_to_a_home(name: str) -> None:
    written = {mount.rpartition(":")[2] for mount in OURS[name]["volumes"] if not mount.endswith(":ro")}
    assert OURS[name]["read_only"] is True
    assert {mount.partition(":")[0] for mount in OURS[name]["tmpfs"]} | written == {"/tmp", "/data"}
    assert written == ({"/data"} if name in SPOOLING else set())


@pytest.mark.parametrize("name", SPOOLING)
def test_a_corpus_on_its_way_is_on_disk_and_not_in_memory(name: str) -> None:
    assert "/data" not in {mount.partition(":")[0] for mount in OURS[name]["tmpfs"]}
    assert OURS[name]["environment"]["TMPDIR"] == "/data"


def test_commands_run_beside_workers_without_building_or_upgrading() -> None:
    assert OURS["cli"]["profiles"] == ["cli"]
    assert OURS["cli"]["pull_policy"] == "never"
    assert not OURS["cli"].keys() & {"build", "depends_on", "command", "restart"}


@pytest.mark.parametrize("name", SERVICES)
def test_no_container_fills_the_disk_or_the_table_of_processes(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["logging"] == {"driver": "local"}
    assert service["pids_limit"] == 4096


def test_redis_answers_other_containers_without_a_password() -> None:
    command = SERVICES["redis"]["command"]
    assert command[command.index("--protected-mode") + 1] == "no"


@pytest.mark.parametrize("name", [name for name, service in SERVICES.items() if "healthcheck" in service])
def test_a_service_is_healthy_soon_after_it_answers(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    assert int(check["interval"].removesuffix("s")) <= 10
    assert "start_interval" not in check  # Compose refuses it where the engine is older than Docker 25


def test_a_changed_line_of_the_source_installs_no_dependency_again() -> None:
    steps = re.findall(r"^(?:COPY|RUN) .*(?:\\\n.*)*", DOCKERFILE, re.MULTILINE)
    source = steps.index("COPY . .")
    assert "COPY pyproject.toml constraints.txt ./" in steps[:source]
    assert [step for step in steps[source:] if "pip install" in step and "--no-deps" not in step] == []


def test_nothing_but_the_base_image_is_fetched_from_a_registry_of_images() -> None:
    assert not DOCKERFILE.startswith("# syntax=")
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${BASE}"}


def test_the_image_has_the_newest_python_that_is_promised() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = re.findall(r"Python :: 3\.(\d+)", "\n".join(project["classifiers"]))
    assert f"ARG BASE=python:3.{max(map(int, promised))}-slim" in DOCKERFILE.splitlines()


def test_the_image_is_built_from_the_files_of_the_wheel_and_no_others() -> None:
    patterns = (CHECKOUT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    let_through = {line.removeprefix("!") for line in patterns if line.startswith("!")}
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", "constraints.txt", project["project"]["readme"], *project["project"]["license-files"]}
    assert "*" in patterns
    assert let_through == needed | {*wheel["packages"], *wheel["force-include"]}


def test_the_image_disables_telemetry() -> None:
    # From 1.29 on, onnxruntime sends telemetry, unless this variable is set before it is loaded.
    assert re.search(r"^ENV (?:.*\\\n)*.*\bORT_DISABLE_TELEMETRY=1\b", DOCKERFILE, re.MULTILINE)


def parse(arguments: Sequence[str]) -> None:
    """Parse the arguments as `kvjobs` would, without running the command; click raises for what it refuses."""
    context = cli.make_context(PROGRAM, list(arguments))
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        if not rest:
            assert context.command.invoke_without_command, f"{context.command_path} wants a command"
            return
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(name, rest, parent=context)
