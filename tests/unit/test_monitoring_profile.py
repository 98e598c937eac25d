"""Compose's profile `monitoring`: what Prometheus and Grafana are started with fits together."""

from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML

from tests.places import CHECKOUT
from tests.unit.test_compose import COMPOSE, PROMETHEUS, SERVICES

MONITORING = {name: service for name, service in SERVICES.items() if service.get("profiles") == ["monitoring"]}


def grafana(name: str) -> Mapping[str, Any]:
    """A file with which Grafana is provisioned."""
    file = CHECKOUT / "deploy" / "grafana" / "provisioning" / name
    return YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def test_the_profile_mounts_files_that_there_are_and_cannot_change_them() -> None:
    assert MONITORING.keys() == {"prometheus", "grafana"}
    for service in MONITORING.values():
        for mount in service["volumes"]:
            source, target = mount.split(":")[:2]
            assert target.startswith("/")
            if source.startswith("./"):
                assert (CHECKOUT / source).exists()
                assert mount.endswith(":ro")
            else:
                assert source in COMPOSE["volumes"]


def test_prometheus_asks_the_dashboard_and_has_our_rules() -> None:
    config = YAML(typ="safe", pure=True).load(PROMETHEUS)
    (job,) = config["scrape_configs"]
    web = SERVICES["web"]["command"]

    assert job["static_configs"] == [{"targets": [f"web:{web[web.index('--port') + 1]}"]}]
    assert job["job_name"] == "kvjobs"  # the alert rules name it
    for rules in config["rule_files"]:
        assert (CHECKOUT / "deploy" / "prometheus" / rules).is_file()


def test_grafana_finds_its_source_and_our_dashboard() -> None:
    (source,) = grafana("datasources/prometheus.yml")["datasources"]
    (provider,) = grafana("dashboards/kvjobs.yml")["providers"]

    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    targets = [mount.split(":")[1] for mount in MONITORING["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/kvjobs-dashboard.json" in targets
