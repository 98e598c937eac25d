"""`kvjobs submit` as it is called, in this process: what it says, and with which exit code it ends."""

import json
from pathlib import Path

import pytest

from jobs.store import jobs, leases
from jobs.store.database import Database
from tests.unit.conftest import Kvjobs


@pytest.fixture
def corpus(home: Path, tmp_path: Path) -> Path:
    """Two documents."""
    return corpus_of(tmp_path / "corpus.jsonl", "It will rain in Arden.", "It will snow in Arden.")


def corpus_of(path: Path, *texts: str | None) -> Path:
    """A document a text; None is a line that cannot be read."""
    lines = ("{" if text is None else json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(texts))
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


# cancelled ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", [[], ["--wait"]])
def test_a_cancelled_job_is_refused_with_the_commands_that_go_on(
    kvjobs: Kvjobs, database: Database, corpus: Path, wait: list[str]
) -> None:
    kvjobs("submit", corpus)
    jobs.cancel(database, 1)

    refused = kvjobs("submit", corpus, *wait)

    assert (refused.exit_code, refused.out) == (2, "")
    assert refused.err.splitlines()[-1] == (
        "Error: job 1 was submitted before with this corpus and these options, and cancelled; to go on with it: kvjobs "
        "retry 1, and for a new job submit it with --again"
    )
    assert kvjobs("submit", corpus, "--again").exit_code == 0
    assert kvjobs("retry", 1).exit_code == 0
    assert kvjobs("submit", corpus).exit_code == 0


def test_a_job_that_is_being_cancelled_is_refused_too(kvjobs: Kvjobs, database: Database, corpus: Path) -> None:
    kvjobs("submit", corpus)
    assert leases.lease(database, 1, 0, 60.0) is not None
    jobs.cancel(database, 1)

    assert kvjobs("submit", corpus).exit_code == 2
