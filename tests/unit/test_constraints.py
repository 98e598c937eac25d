"""constraints.txt has a version and hashes of all that pyproject.toml asks for, and names no index."""

import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.places import CHECKOUT

TEXT = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8")

PIN = re.compile(
    r"^([a-z0-9-]+)==(\S+)((?: ; [^\\\n]*[^\\\n ])?)((?: \\\n    --hash=sha256:[0-9a-f]{64})*)", re.MULTILINE
)

LEFT_OUT = ("bench", "train")  # .ci/constraints says why

PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))


def asked_for() -> Iterator[str]:
    """What the build, kvjobs and its extras ask for."""
    yield from PYPROJECT["build-system"]["requires"]
    yield from PYPROJECT["project"]["dependencies"]
    for extra, requirements in PYPROJECT["project"]["optional-dependencies"].items():
        if extra not in LEFT_OUT:
            yield from requirements


def versions_of(name: str) -> list[str]:
    """Several where not every Python gets the same."""
    return [version for pinned, version, _, _ in PIN.findall(TEXT) if pinned == canonicalize_name(name)]


@pytest.mark.parametrize("text", sorted(set(asked_for())))
def test_a_requirement_has_a_version_that_it_allows(text: str) -> None:
    requirement = Requirement(text)
    if requirement.name == PYPROJECT["project"]["name"]:
        assert not requirement.extras & set(LEFT_OUT)
        return
    assert versions_of(requirement.name)
    assert all(version in requirement.specifier for version in versions_of(requirement.name))


@pytest.mark.parametrize("name", ["hatchling", "ziglang", "uv"])
def test_what_the_image_is_built_with_has_a_version(name: str) -> None:
    assert len(versions_of(name)) == 1


def test_every_version_has_a_hash() -> None:
    pins = PIN.findall(TEXT)
    assert len(pins) == len(re.findall(r"^[a-z0-9]", TEXT, re.MULTILINE))
    assert [name for name, _, _, hashes in pins if not hashes] == []


def test_there_are_names_versions_and_hashes_alone() -> None:
    assert "://" not in TEXT
    assert re.findall(r"^ *--(?!hash=)", TEXT, re.MULTILINE) == []
