"""Which packages are installed."""

import importlib.metadata

import pytest

from jobs.system.requirements import installed_version


@pytest.mark.parametrize(
    ("installed", "version"),
    [({"onnxruntime": "1.30.0"}, "1.30.0"), ({"onnxruntime-gpu": "1.31.1"}, "1.31.1"), ({}, None)],
)
def test_onnxruntime_may_be_the_distribution_for_gpus(
    installed: dict[str, str], version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(name: str) -> str:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(importlib.metadata, "version", found)

    assert installed_version("onnxruntime") == version
