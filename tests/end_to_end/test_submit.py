import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkpoints import write_tokenizer
from tests.end_to_end.conftest import Machine
from tests.places import DEMO_MODEL, GOLDEN

Bulletins = Callable[..., Path]


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_one_command_translates_a_corpus_and_nearly_every_document_is_right(
    machine: Machine, bulletins: Bulletins
) -> None:
    corpus = bulletins(60)

    done = machine.kvjobs("submit", str(corpus), "--wait", "-o", "out.jsonl")

    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    out = records(machine.folder / "out.jsonl")
    assert [r["id"] for r in out] == [r["id"] for r in records(corpus)]
    assert all(r["status"] == "ok" and r["station"] for r in out)
    right = [re.sub(r"\s", "", str(r["translation"])) == re.sub(r"\s", "", str(r["reference"])) for r in out]
    assert sum(right) >= 0.95 * len(right)


def test_the_results_go_to_standard_output_and_nothing_else_does(machine: Machine, bulletins: Bulletins) -> None:
    bulletins(2)

    done = machine.kvjobs("submit", "bulletins.jsonl", "--wait")

    assert [json.loads(line)["status"] for line in done.stdout.splitlines()] == ["ok", "ok"]
    assert "Job 1" in done.stderr


def test_the_same_submit_again_is_the_same_job_and_the_same_bytes(machine: Machine, bulletins: Bulletins) -> None:
    bulletins(3)
    first = machine.kvjobs("submit", "bulletins.jsonl", "--wait")

    second = machine.kvjobs("submit", "bulletins.jsonl", "--wait")

    assert (second.returncode, second.stdout) == (0, first.stdout)
    assert "complete" in second.stderr
    jobs = json.loads(machine.kvjobs("ls", "--all", "--json").stdout)
    assert len(jobs) == 1


def test_the_worker_that_is_brought_for_a_job_begins_with_it_whatever_is_older(
    machine: Machine, bulletins: Bulletins
) -> None:
    bulletins(200, "older.jsonl")
    bulletins(2)
    machine.environment["KVJOBS_QUEUES"] = "model:other"  # what the machine's own workers serve
    machine.kvjobs("submit", "older.jsonl", "--priority", "high")

    done = machine.kvjobs("submit", "bulletins.jsonl", "--wait")

    assert done.returncode == 0, done.stderr
    leased = "select job_id from v_shard_events where event = 'leased' order by at"
    assert json.loads(machine.kvjobs("query", leased, "--json").stdout)[0] == {"job_id": 2}


def test_bad_lines_are_rejected_with_their_reason_and_the_rest_goes_on(machine: Machine) -> None:
    long = json.dumps({"id": "long", "text": "x" * (1 << 20)})
    (machine.folder / "c.jsonl").write_bytes(
        b'{"id": 1, "text": "It will rain in Arden."}\nnot json\n{"id": 2}\n{"id": 3, "text": 7}\n'
        b'{"id": 1, "text": "again"}\n{"id": 4, "text": "\xff"}\n{"id": 5, "text": "  "}\n' + long.encode() + b"\n"
        b'{"id": 6, "text": "</s> >>fr<< <unk>"}\n'
    )

    done = machine.kvjobs("submit", "c.jsonl", "--wait")

    assert done.returncode == 3
    out = [json.loads(line) for line in done.stdout.splitlines()]
    assert [r["status"] for r in out] == ["ok"] + ["rejected"] * 7 + ["ok"]
    assert [r["error"]["line"] for r in out if r["status"] == "rejected"] == [2, 3, 4, 5, 6, 7, 8]
    assert machine.kvjobs("submit", "c.jsonl", "--strict").returncode == 2


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nowhere.jsonl"], 2, "nowhere.jsonl"),
        (["."], 2, "folder|directory"),
        (["empty.jsonl"], 2, "empty|no document"),
        (["c.jsonl", "--model", "no-such-model"], 5, "demo-en-zh"),
        (["c.jsonl", "--model", "./half"], 2, "encoder_model.onnx"),
        (["c.jsonl", "--model", "./html"], 2, "not an ONNX graph"),
        (["c.jsonl", "--task", "summarise"], 2, "translate"),
        (["c.jsonl", "--target-language", "fra"], 2, "single|one target language|no language"),
        (["c.jsonl", "--cache", "maybe"], 2, "hybrid:N"),
        (["c.jsonl", "--beam-size", "0"], 2, "greedy"),
        (["c.jsonl", "--n-best", "5", "--beam-size", "2"], 2, "beam-size"),
        (["c.jsonl", "--n-best", "5", "--wait"], 2, "keeps 1: give --beam-size 5"),
        (["c.jsonl", "-o", "out.jsonl"], 2, "--wait"),
        (["c.jsonl", "--wait", "-o", "c.jsonl"], 2, "corpus itself"),
        (["c.jsonl", "--wait", "-o", "missing/out.jsonl"], 2, "mkdir"),
        (["c.jsonl", "--name", "7"], 2, "number"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_the_right_exit_code(
    machine: Machine, arguments: list[str], code: int, says: str
) -> None:
    folder = machine.folder
    (folder / "c.jsonl").write_text('{"id": 1, "text": "It will rain in Arden."}\n')
    (folder / "empty.jsonl").touch()
    (folder / "half").mkdir()
    (folder / "half" / "config.json").write_text("{}")
    _model_of_web_pages(folder / "html")

    refused = machine.kvjobs("submit", *arguments)

    assert refused.returncode == code, refused.stderr
    assert re.search(says, refused.stderr)
    assert "Traceback" not in refused.stderr
    assert refused.stdout == ""
    assert json.loads(machine.kvjobs("ls", "--all", "--json").stdout or "[]") == []


def test_what_comes_through_a_pipe_is_a_corpus_too(machine: Machine) -> None:
    line = '{"id": "a", "text": "It will rain in Arden."}\n'

    done = machine.kvjobs("submit", "-", "--wait", stdin=line)

    assert json.loads(done.stdout)["status"] == "ok"
    assert "complete" in machine.kvjobs("submit", "-", "--wait", stdin=line).stderr


def test_cache_on_off_and_hybrid_give_the_same_bytes(machine: Machine, bulletins: Bulletins) -> None:
    bulletins(4)
    _optimum_model(machine.folder / "tiny")

    outputs = {
        machine.kvjobs(
            "submit", "bulletins.jsonl", "--model", "./tiny", "--wait", "--cache", cache, "--beam-size", "4"
        ).stdout
        for cache in ("on", "off", "hybrid:3")
    }

    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) == 4


def test_a_segment_that_was_translated_before_is_reused_and_the_result_says_so(
    machine: Machine, bulletins: Bulletins
) -> None:
    bulletins(4)
    first = machine.kvjobs("submit", "bulletins.jsonl", "--wait")

    again = machine.kvjobs("submit", "bulletins.jsonl", "--wait", "--again")
    fresh = machine.kvjobs("submit", "bulletins.jsonl", "--wait", "--again", "--no-reuse")

    assert first.stdout == again.stdout == fresh.stdout
    jobs = {job["job_id"]: job for job in json.loads(machine.kvjobs("ls", "--all", "--json").stdout)}
    assert jobs[2]["segments_reused"] == jobs[2]["segments"] > 0
    assert jobs[3]["segments_reused"] == 0


def test_every_second_of_a_batch_is_accounted_for(machine: Machine, bulletins: Bulletins) -> None:
    bulletins(40)
    machine.kvjobs("submit", "bulletins.jsonl", "--wait", "--no-reuse")

    rows = json.loads(machine.kvjobs("steps", "1", "--by", "phase", "--json").stdout)

    assert {"queue", "segment", "tokenize", "encode", "decode", "detokenize"} <= {r["group"] for r in rows}


def test_dry_run_says_what_would_be_done_and_does_nothing(machine: Machine, bulletins: Bulletins) -> None:
    bulletins(5)

    told = machine.kvjobs("submit", "bulletins.jsonl", "--dry-run")

    assert told.returncode == 0
    assert re.search(r"documents +5", told.stdout)
    assert machine.kvjobs("ls", "--all", "--json").stdout.strip() == "[]"


def test_the_database_is_locked_by_somebody_else(machine: Machine, bulletins: Bulletins) -> None:
    machine.environment["KVJOBS_BUSY_TIMEOUT_S"] = "0.5"
    bulletins(1)
    machine.kvjobs("ls")
    other = sqlite3.connect(Path(machine.environment["KVJOBS_HOME"]) / "kvjobs.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    refused = machine.kvjobs("submit", "bulletins.jsonl")

    assert refused.returncode == 1
    assert "locked" in refused.stderr
    other.execute("ROLLBACK")
    other.close()
    assert machine.kvjobs("submit", "bulletins.jsonl").returncode == 0


def _optimum_model(folder: Path) -> None:
    """An export whose every word is noise, with a tokenizer of its size."""
    folder.mkdir()
    for name in ("config.json", "generation_config.json", "encoder_model.onnx", "decoder_model_merged.onnx"):
        shutil.copy(GOLDEN / "tiny-swish-tied" / name, folder)
    config = json.loads((folder / "config.json").read_text())
    write_tokenizer(folder, config["vocab_size"], eos_id=config["eos_token_id"], pad_id=config["pad_token_id"])


def _model_of_web_pages(folder: Path) -> None:
    """What a download through a login page leaves behind."""
    folder.mkdir()
    for file in DEMO_MODEL.iterdir():
        is_graph = file.suffix == ".onnx"
        (folder / file.name).write_bytes(b"<html>please log in</html>" if is_graph else file.read_bytes())
