"""The manifests of deploy/kubernetes are valid for the schemas of their kinds: Kubernetes' own, and that of KEDA."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.places import CHECKOUT, TESTS

validate = pytest.importorskip("kubernetes_validate", reason="pip install -e '.[kubernetes]'")

FOLDER = CHECKOUT / "deploy" / "kubernetes"
FILES = sorted(file for file in FOLDER.iterdir() if file.name != "kustomization.yaml")
VERSIONS = ("1.31", "1.37")  # from, to
# The schema of a ScaledObject, no kind of Kubernetes: config/crd/bases of KEDA at 8b4f083c, 2026-08 (Apache-2.0).
KEDA = TESTS / "clients" / "keda.sh_scaledobjects.yaml"


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


def test_the_scaled_object_is_valid_for_kedas_schema() -> None:
    (definition,) = objects(KEDA)
    (version,) = (version for version in definition["spec"]["versions"] if version["name"] == "v1alpha1")
    schema = strict(version["schema"]["openAPIV3Schema"])
    (scaled,) = objects(FOLDER / "worker-scaling.yaml")

    assert [error.message for error in Draft202012Validator(schema).iter_errors(scaled)] == []
    scaled["spec"]["maxReplicas"] = 20
    assert len(list(Draft202012Validator(schema).iter_errors(scaled))) == 1


def strict(schema: Any) -> Any:
    """The schema without room for fields that it does not name, which Kubernetes drops."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        made.setdefault("additionalProperties", False)
    return made
