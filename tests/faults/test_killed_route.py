"""Jobs of several models, as a user runs them: real models, real processes, which are killed in the middle."""

import json
import re
from pathlib import Path

import pytest

from jobs.store.database import Database
from tests.checkpoints import write_marian_checkpoint
from tests.command_line import Kvjobs
from tests.end_to_end.conftest import Bulletins
from tests.faults.invariants import find_violations
from tests.machine import Machine

DEATHS = ("before-commit", "after-commit")


@pytest.fixture
def tiny_fr_en(machine: Machine, kvjobs: Kvjobs, tmp_path: Path) -> str:
    """A model of random weights; the bundled model reads what it writes."""
    checkpoint = write_marian_checkpoint(tmp_path / "tiny-fr-en", max_length=16)
    added = kvjobs("models", "add", checkpoint)
    assert added.exit_code == 0, added.err
    return checkpoint.name


def test_killing_the_worker_of_a_job_of_several_languages_and_models_loses_and_doubles_nothing(
    machine: Machine, kvjobs: Kvjobs, tiny_fr_en: str, bulletins: Bulletins
) -> None:
    documents = [json.loads(line) for line in bulletins(8).read_text().splitlines()]
    languages = ["fr", "en", "sw", "en-GB"] * 2
    corpus = machine.folder / "mixed.jsonl"
    lines = [{**one, "lang": language} for one, language in zip(documents, languages, strict=True)]
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
    routes = json.dumps({"en-zh": "demo-en-zh", "fr-zh": [tiny_fr_en, "demo-en-zh"]})

    done = machine.kvjobs(
        *("submit", "mixed.jsonl", "--model", "auto", "--target-language", "zh", "--beam-size", "1", "--wait"),
        KVJOBS_ROUTES=routes,
        KVJOBS_FAILPOINTS=",".join(f"{name}:kill" for name in DEATHS),  # the first batch goes through two models
        KVJOBS_FAILPOINTS_LOG=str(machine.folder / "hits"),
        KVJOBS_LEASE_S="10",
        KVJOBS_HEARTBEAT_S="1",
    )

    assert done.returncode == 3, done.stderr
    assert [line.split()[0] for line in (machine.folder / "hits").read_text().splitlines()] == [
        f"{name}:kill" for name in DEATHS
    ]
    out = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["id"], one["lang"]) for one in out] == [(line["id"], line["lang"]) for line in lines]
    assert [one["status"] for one in out] == ["ok", "ok", "rejected", "ok"] * 2
    english = [one for one in out if one["lang"].startswith("en")]
    right = [re.sub(r"\s", "", one["translation"]) == re.sub(r"\s", "", one["reference"]) for one in english]
    assert sum(right) >= 3, "of 4, by the model of their own route"
    assert [one["via"] is None for one in out] == [False, True, True, True] * 2
    events = machine.ask("select event, documents from shard_events where event = 'recorded' order by at")
    assert [tuple(row) for row in events] == [("recorded", 2), ("recorded", 4)]
    database = Database.connect(f"sqlite:///{machine.home / 'kvjobs.db'}")
    try:
        exported = done.stdout.encode()
        assert find_violations(database, 1, exported, exported, deaths=len(DEATHS)) == []
    finally:
        database.close()
    phases = {row["group"] for row in kvjobs("steps", "1", "--by", "phase", "--json").json}
    assert phases >= {"encode", "decode", "encode.via", "decode.via"}
