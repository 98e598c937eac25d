"""The manifests of deploy/kubernetes fit together and contain nothing that kvjobs would refuse; read without a cluster.
(Against the schemas of their kinds: tests/clients/test_kubernetes.py.)"""

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest
from ruamel.yaml import YAML

from jobs.settings import SECRET, Settings
from tests.places import CHECKOUT
from tests.unit.test_compose import DOCKERFILE, parse

FOLDER = CHECKOUT / "deploy" / "kubernetes"
YAML_READER = YAML(typ="safe", pure=True)
KUSTOMIZATION = YAML_READER.load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
FILES = sorted(file.name for file in FOLDER.iterdir() if file.name != "kustomization.yaml")
OBJECTS = {
    (thing["kind"], thing["metadata"]["name"]): thing
    for name in FILES
    for thing in YAML_READER.load_all((FOLDER / name).read_text(encoding="utf-8"))
}
PODS: Mapping[str, Any] = {
    name: thing["spec"]["template"] for (kind, name), thing in OBJECTS.items() if kind in ("Deployment", "Job")
}
EVERY_POD = pytest.mark.parametrize("name", PODS)
SECRETS = "/run/secrets/kvjobs/"
SETTINGS = OBJECTS["ConfigMap", "kvjobs-settings"]["data"]


def container(name: str) -> Any:
    (only,) = PODS[name]["spec"]["containers"]
    return only


def test_the_kustomization_lists_every_file_once() -> None:
    assert sorted(KUSTOMIZATION["resources"]) == FILES


def test_there_are_workers_a_dashboard_and_the_upgrade_of_the_tables() -> None:
    assert {name: container(name)["args"][0] for name in PODS} == {
        "kvjobs-migrate": "db",
        "kvjobs-worker": "worker",
        "kvjobs-web": "web",
    }


@EVERY_POD
def test_the_command_line_takes_each_command(name: str) -> None:
    parse(container(name)["args"])


def test_the_probe_of_a_worker_is_a_command_and_that_of_the_dashboard_an_address() -> None:
    program, *arguments = container("kvjobs-worker")["readinessProbe"]["exec"]["command"]
    assert program == "kvjobs"
    parse(arguments)
    assert "livenessProbe" not in container("kvjobs-worker"), "a worker whose database is away waits with its batch"
    assert container("kvjobs-web")["readinessProbe"]["httpGet"]["path"].startswith("/healthz")


@EVERY_POD
def test_a_pod_runs_as_the_user_of_the_image_and_can_become_no_other(name: str) -> None:
    pod, of_container = PODS[name]["spec"]["securityContext"], container(name)["securityContext"]
    (user,) = set(re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE))

    assert (pod["runAsUser"], pod["runAsGroup"], pod["runAsNonRoot"]) == (int(user[0]), int(user[1]), True)
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert of_container == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert PODS[name]["spec"]["automountServiceAccountToken"] is False


@EVERY_POD
def test_a_pod_writes_to_its_home_and_tmp_alone(name: str) -> None:
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in container(name)["volumeMounts"]}

    assert {path for path, read_only in mounts.items() if not read_only} == {"/data", "/tmp"}
    assert {mount["name"] for mount in container(name)["volumeMounts"]} == {
        volume["name"] for volume in PODS[name]["spec"]["volumes"]
    }


@EVERY_POD
def test_every_variable_is_a_setting_and_kubernetes_adds_none(name: str) -> None:
    """Kubernetes would give a container KVJOBS_WEB_PORT and others, for the service kvjobs-web."""
    given = {**SETTINGS, **{item["name"]: item["value"] for item in container(name).get("env", ())}}
    files = {f"KVJOBS_{secret.upper()}_FILE" for secret in SECRET}

    assert PODS[name]["spec"]["enableServiceLinks"] is False
    assert container(name)["envFrom"] == [{"configMapRef": {"name": "kvjobs-settings"}}]
    assert given.keys() <= files | {f"KVJOBS_{field.name.upper()}" for field in fields(Settings)}
    assert not any(re.search(r"://[^/]*:[^/]*@", value) for value in given.values())


@EVERY_POD
def test_a_pod_mounts_the_secrets_that_it_names(name: str) -> None:
    given = {**SETTINGS, **{item["name"]: item["value"] for item in container(name).get("env", ())}}
    named = {value.removeprefix(SECRETS) for value in given.values() if value.startswith(SECRETS)}
    (volume,) = (volume for volume in PODS[name]["spec"]["volumes"] if volume["name"] == "secrets")
    (mount,) = (mount for mount in container(name)["volumeMounts"] if mount["name"] == "secrets")

    assert mount["mountPath"] == SECRETS.rstrip("/")
    assert volume["secret"]["secretName"] == "kvjobs"
    items = {item["path"] for item in volume["secret"].get("items", ())}
    assert items in (named, set()), "a pod gets no secret that it does not need; without items it gets all"


def test_a_worker_has_the_time_to_finish_its_batch() -> None:
    assert PODS["kvjobs-worker"]["spec"]["terminationGracePeriodSeconds"] >= 40


@pytest.mark.parametrize(
    ("kind", "name"), [thing for thing in OBJECTS if thing[0] in ("Deployment", "Service", "PodDisruptionBudget")]
)
def test_a_selector_finds_the_pods_of_its_name(kind: str, name: str) -> None:
    selector = OBJECTS[kind, name]["spec"]["selector"]
    wanted = selector.get("matchLabels", selector)

    assert wanted.items() <= PODS[name]["metadata"]["labels"].items()


def test_the_rules_of_the_network_hold_for_every_pod() -> None:
    rule = OBJECTS["NetworkPolicy", "kvjobs"]["spec"]
    for pod in PODS.values():
        assert rule["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert set(rule["policyTypes"]) == {"Ingress", "Egress"}
    assert "ingress" not in rule
    visits = OBJECTS["NetworkPolicy", "kvjobs-web"]["spec"]
    assert visits["podSelector"]["matchLabels"].items() <= PODS["kvjobs-web"]["metadata"]["labels"].items()
    (port,) = OBJECTS["Service", "kvjobs-web"]["spec"]["ports"]
    assert str(visits["ingress"][0]["ports"][0]["port"]) == str(port["port"])
    assert str(port["port"]) in container("kvjobs-web")["args"]


def test_workers_are_scaled_by_metrics_that_there_are() -> None:
    scaled = OBJECTS["ScaledObject", "kvjobs-worker"]["spec"]
    (trigger,) = scaled["triggers"]
    monitoring = (CHECKOUT / "jobs" / "web" / "pages" / "monitoring.py").read_text(encoding="utf-8")

    assert ("Deployment", scaled["scaleTargetRef"]["name"]) in OBJECTS
    assert "replicas" not in OBJECTS["Deployment", "kvjobs-worker"]["spec"], "an apply would undo what KEDA has set"
    names = re.findall(r"kvjobs_\w+", trigger["metadata"]["query"])
    assert set(names) == {"kvjobs_waiting_shards", "kvjobs_lanes"}
    for name in names:
        assert f'"{name}"' in monitoring
    assert all(isinstance(value, str) for value in trigger["metadata"].values())


def test_the_image_is_the_one_that_the_kustomization_names() -> None:
    (image,) = KUSTOMIZATION["images"]
    assert {container(name)["image"] for name in PODS} == {image["name"]}
