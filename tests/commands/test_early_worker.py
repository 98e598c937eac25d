"""When `submit` starts a worker before there is a job."""

from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Kvjobs


@pytest.fixture
def corpus(home: Path) -> Path:
    path = home / "corpus.jsonl"
    path.write_text('{"id": "a", "text": "It will rain in Arden."}\n')
    return path


def test_a_submit_that_fails_kills_the_worker_that_it_started_early(
    kvjobs: Kvjobs, home: Path, waiting_workers: list[Any]
) -> None:
    assert kvjobs("submit", home / "nowhere.jsonl", "--wait").exit_code == 2

    assert [one.is_killed for one in waiting_workers] == [True]


@pytest.mark.parametrize("options", [[], ["--wait", "--dry-run"], ["--wait", "--queue", "gpu"]], ids=" ".join)
def test_no_worker_is_started_early_where_the_submit_may_need_none_or_another(
    kvjobs: Kvjobs, corpus: Path, waiting_workers: list[Any], options: list[str]
) -> None:
    kvjobs("submit", corpus.with_name("nowhere.jsonl"), *options)

    assert waiting_workers == []


@pytest.mark.parametrize(
    ("variable", "value"),
    [("KVJOBS_BROKER", "redis://127.0.0.1:1/0"), ("KVJOBS_DATABASE", "postgresql+psycopg://nobody@127.0.0.1:1/none")],
)
def test_no_worker_is_started_early_in_a_fleet(
    kvjobs: Kvjobs,
    corpus: Path,
    waiting_workers: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
) -> None:
    monkeypatch.setenv(variable, value)

    kvjobs("submit", corpus.with_name("nowhere.jsonl"), "--wait")

    assert waiting_workers == []
