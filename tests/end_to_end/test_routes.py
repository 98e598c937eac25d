"""Jobs of several models, as a user runs them: real models, real processes, which are killed in the middle."""

import json
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


def test_killing_a_worker_of_two_models_loses_and_doubles_nothing(
    machine: Machine, kvjobs: Kvjobs, tiny_fr_en: str, bulletins: Bulletins
) -> None:
    corpus = bulletins(12)
    options = [
        "--model",
        tiny_fr_en,
        "--via-model",
        "demo-en-zh",
        "--beam-size",
        "1",
        "--max-new-tokens",
        "8",
        "--no-reuse",
    ]
    kvjobs("submit", corpus, *options)
    failpoints = ",".join(f"{name}:kill" for name in DEATHS)
    log = machine.folder / "hits"

    killed = machine.kvjobs(
        *("submit", str(corpus), *options, "--wait", "-o", "killed.jsonl"),
        KVJOBS_FAILPOINTS=failpoints,
        KVJOBS_FAILPOINTS_LOG=str(log),
        KVJOBS_LEASE_S="10",
        KVJOBS_HEARTBEAT_S="1",
    )

    assert killed.returncode == 0, killed.stderr
    assert [line.split()[0] for line in log.read_text().splitlines()] == [f"{name}:kill" for name in DEATHS]
    undisturbed = machine.kvjobs("submit", str(corpus), *options, "--again", "--wait", "-o", "calm.jsonl")
    assert undisturbed.returncode == 0, undisturbed.stderr
    database = Database.connect(f"sqlite:///{machine.home / 'kvjobs.db'}")
    try:
        exports = [(machine.folder / name).read_bytes() for name in ("killed.jsonl", "calm.jsonl")]
        assert find_violations(database, 1, *exports, deaths=len(DEATHS)) == []
    finally:
        database.close()
    phases = {row["group"]: row["seconds"] for row in kvjobs("steps", "1", "--by", "phase", "--json").json}
    assert phases.keys() >= {"encode", "decode", "encode.via", "decode.via"}
    out = [json.loads(line) for line in exports[1].splitlines()]
    assert all(one["status"] == "ok" and one["via"] and one["translation"] != one["via"] for one in out)


def test_a_corpus_of_several_languages_is_one_job_whose_worker_is_killed_between_two_models(
    machine: Machine, kvjobs: Kvjobs, tiny_fr_en: str, bulletins: Bulletins
) -> None:
    documents = [json.loads(line) for line in bulletins(8).read_text().splitlines()]
    languages = ["en", "fr", "sw", "en-GB"] * 2
    corpus = machine.folder / "mixed.jsonl"
    lines = [{**one, "lang": language} for one, language in zip(documents, languages, strict=True)]
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
    routes = json.dumps({"en-zh": "demo-en-zh", "fr-zh": [tiny_fr_en, "demo-en-zh"]})

    done = machine.kvjobs(
        *("submit", "mixed.jsonl", "--model", "auto", "--target-language", "zh", "--beam-size", "1", "--wait"),
        KVJOBS_ROUTES=routes,
        KVJOBS_FAILPOINTS="after-commit:kill",  # the batch of the first language is recorded, the second's is not
        KVJOBS_FAILPOINTS_LOG=str(machine.folder / "hits"),
        KVJOBS_LEASE_S="10",
        KVJOBS_HEARTBEAT_S="1",
    )

    assert done.returncode == 3, done.stderr
    assert (machine.folder / "hits").exists()
    out = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["id"], one["lang"]) for one in out] == [(line["id"], line["lang"]) for line in lines]
    assert [one["status"] for one in out] == ["ok", "ok", "rejected", "ok"] * 2
    assert [one["via"] is None for one in out] == [True, False, True, True] * 2
    events = machine.ask("select event, documents from shard_events where event = 'recorded' order by at")
    assert [tuple(row) for row in events] == [("recorded", 4), ("recorded", 2)]
    database = Database.connect(f"sqlite:///{machine.home / 'kvjobs.db'}")
    try:
        exported = done.stdout.encode()
        assert find_violations(database, 1, exported, exported, deaths=1) == []
    finally:
        database.close()
    alone = machine.kvjobs("submit", "bulletins.jsonl", "--beam-size", "1", "--wait")
    plain = [json.loads(line) for line in alone.stdout.splitlines()]
    for one, other in zip(out, plain, strict=True):
        assert one["lang"].startswith("en") == (one["translation"] == other["translation"])
