"""`kvjobs config` shows every setting but a password."""

import pytest

from jobs.settings import hide_passwords
from tests.command_line import Kvjobs


def test_a_password_is_never_shown(kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in (
        "postgresql+psycopg://user:hunter2@host:5432/jobs",
        "postgresql://host/jobs?user=u&password=hunter2",
        "postgresql://user:hunter:hunter/hunter?hunter@host/jobs",
    ):
        assert "hunter" not in hide_passwords(url)
        monkeypatch.setenv("KVJOBS_DATABASE", url)
        for command in (("config",), ("config", "--json"), ("config", "--csv"), ("doctor",), ("ls",), ("db", "path")):
            result = kvjobs(*command)
            assert "hunter" not in result.out + result.err
    assert hide_passwords("sqlite:////home/me/kvjobs.db") == "sqlite:////home/me/kvjobs.db"
    assert hide_passwords("postgresql://user@host/jobs") == "postgresql://user@host/jobs"


def test_the_token_of_the_dashboard_is_never_shown(kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVJOBS_WEB_TOKEN", "open sesame")

    for form in ((), ("--json",), ("--csv",)):
        result = kvjobs("config", *form)
        assert "sesame" not in result.out + result.err
        assert "***" in result.out
