"""Addresses in settings: no secret of one is shown, and a database may lie in a folder of any name."""

from pathlib import Path

import pytest
from hypothesis import example, given, strategies
from sqlalchemy import URL, make_url

from jobs.errors import SpecError
from jobs.settings import Settings, hide_passwords, sqlite_url
from tests.command_line import Kvjobs

# A password pasted into a URL may contain any unescaped character.
passwords = strategies.text(min_size=1)


@given(passwords)
@example("a://b:c")
@example("a?token=b")
def test_no_character_of_a_password_before_the_host_is_shown(password: str) -> None:
    shown = hide_passwords(f"postgresql://user:{password}@host/jobs")

    # What looks like a ?token= parameter hides everything after it, the host too.
    assert shown in ("postgresql://user:***@host/jobs", "postgresql://user:***")
    assert hide_passwords(f"redis://:{password}@host:6379/0") in ("redis://:***@host:6379/0", "redis://:***")
    assert hide_passwords(f"user:{password}@host/jobs") in ("user:***@host/jobs", "user:***")


@given(passwords, strategies.sampled_from(["password", "sslpassword", "PassFile", "api_key", "access-token", "x%2Dy"]))
def test_no_character_of_a_password_behind_the_name_of_the_database_is_shown(password: str, parameter: str) -> None:
    shown = hide_passwords(f"postgresql://user@host:5432/jobs?sslmode=require&{parameter}={password}")

    # A password with an @ could begin at the port.
    assert shown in (f"postgresql://user@host:5432/jobs?sslmode=require&{parameter}=***", "postgresql://user@host:***")
    assert hide_passwords(f"{parameter}={password}") == f"{parameter}=***"


def test_an_address_without_a_secret_is_shown_as_it_is() -> None:
    for url in (
        "sqlite:////home/me@work/kvjobs.db",
        "postgresql://user@host:5432/jobs?sslmode=require&connect_timeout=3",
        "postgresql:///jobs?host=/run/postgresql",
        "redis://10.0.0.1:6379/0",
        "rediss://host/0?ssl_cert_reqs=required",
    ):
        assert hide_passwords(url) == url
    assert hide_passwords("postgresql://user@tenant:secret@host/jobs") == "postgresql://user@tenant:***@host/jobs"


@pytest.mark.parametrize("password", ["s3@s3", "s3@s3/s3", "s3@s3:s3", "s3@s3?s3"])
def test_a_password_with_an_unescaped_at_sign_is_refused_before_a_part_of_it_is_taken_for_the_host(
    kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    monkeypatch.setenv("KVJOBS_DATABASE", f"postgresql://user:{password}@127.0.0.1:1/jobs")

    result = kvjobs("ls")

    assert (result.exit_code, "s3" in result.out + result.err, "%40" in result.err) == (2, False, True)


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%20b", "a b", "a'b\"c", "a\nb", "ä@+&=é", "a:b"])
def test_a_database_lies_in_its_home_whatever_characters_the_path_has(tmp_path: Path, name: str) -> None:
    file = tmp_path / name / "kvjobs.db"

    settings = Settings(home=file.parent, models_dir=tmp_path)

    assert make_url(settings.database_url).database == str(file)
    assert settings.database_file == file
    assert make_url(settings.database_url) == URL.create("sqlite", database=str(file))


def test_a_home_that_no_url_can_name_is_refused() -> None:
    with pytest.raises(SpecError, match="UTF-8"):
        sqlite_url(Path("/home/\udcff/kvjobs.db"))
