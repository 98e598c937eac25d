"""The manifests of deploy/kubernetes are valid for their kinds, and the one for KEDA has the fields that it reads."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.places import CHECKOUT

validate = pytest.importorskip("kubernetes_validate", reason="pip install -e '.[kubernetes]'")

FOLDER = CHECKOUT / "deploy" / "kubernetes"
FILES = sorted(file for file in FOLDER.iterdir() if file.name != "kustomization.yaml")
VERSIONS = ("1.31", "1.37")  # from, to


def of(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """The schema of an object with these fields and no others, which Kubernetes would drop."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


COUNT, TEXT = {"type": "integer", "minimum": 0}, {"type": "string"}
TRIGGER = {
    **dict.fromkeys(("type", "name", "metricType"), TEXT),
    "metadata": {"type": "object", "additionalProperties": TEXT},
    "authenticationRef": of(dict.fromkeys(("name", "kind"), TEXT), "name"),
    "useCachedMetrics": {"type": "boolean"},
}
ADVANCED = {
    "horizontalPodAutoscalerConfig": of({"name": TEXT, "behavior": {"type": "object"}}),
    "restoreToOriginalReplicaCount": {"type": "boolean"},
}
COUNTS = ("pollingInterval", "cooldownPeriod", "initialCooldownPeriod", "minReplicaCount", "maxReplicaCount")
# Those fields of a ScaledObject, no kind of Kubernetes, that a Deployment needs (KEDA, config/crd/bases at 8b4f083c).
SCALED_OBJECT = of(
    {
        "apiVersion": {"const": "keda.sh/v1alpha1"},
        "kind": {"const": "ScaledObject"},
        "metadata": {"type": "object"},
        "spec": of(
            {
                "scaleTargetRef": of(dict.fromkeys(("name", "kind", "apiVersion"), TEXT), "name"),
                **dict.fromkeys((*COUNTS, "idleReplicaCount"), COUNT),
                "advanced": of(ADVANCED),
                "triggers": {"type": "array", "items": of(TRIGGER, "type", "metadata"), "minItems": 1},
            },
            "scaleTargetRef",
            "triggers",
        ),
    },
    "apiVersion",
    "kind",
    "spec",
)


def objects(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_manifest_is_valid_for_its_kind(file: Path, version: str) -> None:
    for thing in objects(file):
        if not thing["apiVersion"].startswith("keda.sh/"):
            validate.validate(thing, version, strict=True)


def test_a_misspelt_field_is_found() -> None:
    (worker,) = objects(FOLDER / "worker.yaml")
    worker["spec"]["template"]["spec"]["terminationGracePeriod"] = 40

    with pytest.raises(validate.ValidationError):
        validate.validate(worker, VERSIONS[-1], strict=True)


def test_the_scaled_object_has_what_keda_reads() -> None:
    (scaled,) = objects(FOLDER / "worker-scaling.yaml")

    assert problems(scaled) == []
    scaled["spec"]["maxReplicas"] = 20
    assert problems(scaled) != []


def problems(scaled: dict[str, Any]) -> list[str]:
    """What KEDA would drop or refuse in a ScaledObject, by the names and types of its fields. How it scales goes into a
    HorizontalPodAutoscaler as it is."""
    found = [error.message for error in Draft202012Validator(SCALED_OBJECT).iter_errors(scaled)]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", **scaled["spec"]["scaleTargetRef"]}
    behavior = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    spec = {"scaleTargetRef": target, "maxReplicas": scaled["spec"]["maxReplicaCount"], "behavior": behavior}
    made = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "x"}, "spec": spec}
    validate.validate(made, VERSIONS[-1], strict=True)
    return found
