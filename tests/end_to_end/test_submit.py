"""`kvjobs submit --wait` from a corpus to its results."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints import write_tokenizer
from tests.command_line import Kvjobs
from tests.end_to_end.conftest import Bulletins
from tests.machine import Machine
from tests.messages import line_with
from tests.places import DEMO_MODEL, GOLDEN
from tests.webhook_receiver import SECRET, receiving


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_one_command_translates_a_corpus_and_repeating_it_gives_the_same_job(
    machine: Machine, kvjobs: Kvjobs, bulletins: Bulletins
) -> None:
    """At least 95 % of the translations are correct, and every phase is timed."""
    shutil.rmtree(machine.home)  # as before the first use
    corpus = bulletins(40)

    done = machine.kvjobs("submit", str(corpus), "--wait", "-o", "out.jsonl")

    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    out = records(machine.folder / "out.jsonl")
    assert [r["id"] for r in out] == [r["id"] for r in records(corpus)]
    assert all(r["status"] == "ok" and r["station"] for r in out)
    right = [re.sub(r"\s", "", str(r["translation"])) == re.sub(r"\s", "", str(r["reference"])) for r in out]
    assert sum(right) >= 0.95 * len(right)
    phases = {row["group"] for row in kvjobs("steps", "1", "--by", "phase", "--json").json}
    assert phases >= {"queue", "segment", "tokenize", "encode", "decode", "detokenize"}

    again = kvjobs("submit", corpus, "--wait")

    assert again.exit_code == 0
    assert again.out == (machine.folder / "out.jsonl").read_text(encoding="utf-8")
    assert line_with(again.err, "before", "done")
    assert kvjobs("ls", "--all", "-q").out == "1\n"


def test_the_corpus_can_be_standard_input_and_its_own_worker_leases_that_job_first(
    machine: Machine, kvjobs: Kvjobs, bulletins: Bulletins
) -> None:
    kvjobs("submit", bulletins(40), "--priority", "high")
    text = '{"id": "a", "text": "It will rain in Arden."}\n'

    # The workers of this machine serve another model, but the worker that the command starts serves this job.
    done = machine.kvjobs("submit", "-", "--wait", stdin=text, KVJOBS_QUEUES="model:other")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "ok"  # standard output has only results
    assert "Job 2" in done.stderr
    assert machine.ask("select job_id from v_shard_events where event = 'leased' order by at limit 1") == [(2,)]


@pytest.mark.usefixtures("worker")
def test_bad_lines_are_rejected_with_a_reason_and_all_others_translated(machine: Machine, kvjobs: Kvjobs) -> None:
    long = json.dumps({"id": "long", "text": "x" * (1 << 20)})
    (machine.folder / "c.jsonl").write_bytes(
        b'{"id": 1, "text": "It will rain in Arden."}\nnot json\n{"id": 2}\n{"id": 3, "text": 7}\n'
        b'{"id": 1, "text": "again"}\n{"id": 4, "text": "\xff"}\n{"id": 5, "text": "  "}\n' + long.encode() + b"\n"
        b'{"id": 6, "text": "</s> >>fr<< <unk>"}\n'
    )

    done = kvjobs("submit", "c.jsonl", "--wait")

    assert done.exit_code == 3
    out = [json.loads(line) for line in done.out.splitlines()]
    assert [r["status"] for r in out] == ["ok"] + ["rejected"] * 7 + ["ok"]
    assert [r["error"]["line"] for r in out if r["status"] == "rejected"] == [2, 3, 4, 5, 6, 7, 8]
    assert kvjobs("submit", "c.jsonl", "--strict").exit_code == 2


def test_a_model_whose_graphs_are_html_pages_is_refused_in_one_sentence(machine: Machine, kvjobs: Kvjobs) -> None:
    """A download through a login page leaves such files. (Other refusals: tests/commands/test_submit.py.)"""
    (machine.folder / "c.jsonl").write_text('{"id": 1, "text": "It will rain in Arden."}\n')
    (machine.folder / "html").mkdir()
    for file in DEMO_MODEL.iterdir():
        is_graph = file.suffix == ".onnx"
        content = b"<html>please log in</html>" if is_graph else file.read_bytes()
        (machine.folder / "html" / file.name).write_bytes(content)

    refused = kvjobs("submit", "c.jsonl", "--model", "./html")

    assert (refused.exit_code, refused.out) == (2, "")
    assert "ONNX graph" in refused.err
    assert "Traceback" not in refused.err
    assert machine.ask("select count(*) from jobs") == [(0,)]


@pytest.mark.usefixtures("worker")
def test_cache_on_off_and_hybrid_give_the_same_bytes(machine: Machine, kvjobs: Kvjobs, bulletins: Bulletins) -> None:
    bulletins(4)
    _optimum_model(machine.folder / "tiny")

    outputs = {
        kvjobs("submit", "bulletins.jsonl", "--model", "./tiny", "--wait", "--cache", cache, "--beam-size", "4").out
        for cache in ("on", "off", "hybrid:3")
    }

    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) == 4
    assert machine.ask("select count(*), sum(segments_reused) from v_jobs") == [(3, 0)]


@pytest.mark.usefixtures("worker")
def test_a_segment_that_was_translated_before_is_reused_and_counted(kvjobs: Kvjobs, bulletins: Bulletins) -> None:
    bulletins(4)
    first = kvjobs("submit", "bulletins.jsonl", "--wait")

    again = kvjobs("submit", "bulletins.jsonl", "--wait", "--again")
    fresh = kvjobs("submit", "bulletins.jsonl", "--wait", "--again", "--no-reuse")

    assert len(first.out.splitlines()) == 4
    assert first.out == again.out == fresh.out
    jobs = {job["job_id"]: job for job in kvjobs("ls", "--all", "--json").json}
    assert jobs[2]["segments_reused"] == jobs[2]["segments"] > 0
    assert jobs[3]["segments_reused"] == 0


def _optimum_model(folder: Path) -> None:
    """An Optimum export with random weights, and a tokenizer of the same vocabulary size."""
    folder.mkdir()
    for name in ("config.json", "generation_config.json", "encoder_model.onnx", "decoder_model_merged.onnx"):
        shutil.copy(GOLDEN / "tiny-swish-tied" / name, folder)
    config = json.loads((folder / "config.json").read_text())
    write_tokenizer(folder, config["vocab_size"], eos_id=config["eos_token_id"], pad_id=config["pad_token_id"])


def test_the_end_of_a_job_is_told_to_an_address_and_to_a_command(
    machine: Machine, kvjobs: Kvjobs, bulletins: Bulletins
) -> None:
    """No worker runs, and none is left after the command."""
    told = {"KVJOBS_NOTIFY_SECRET": SECRET, "KVJOBS_LOG_LEVEL": "warning"}
    with receiving() as receiver:
        run = ("submit", str(bulletins(2)), "--wait", "--notify", receiver.url)
        on_end = ("--on-end", 'echo "job $KVJOBS_JOB is $KVJOBS_STATE" > ended; echo said; exit 3')
        done = machine.kvjobs(*run, "-o", "out.jsonl", *on_end, **told)

        message: Any = receiver.verified()
    assert (message["data"]["job"], message["data"]["state"]) == (1, "done")
    assert (machine.folder / "ended").read_text() == "job 1 is done\n"
    assert (done.returncode, done.stdout) == (1, "")
    assert "said" in done.stderr
    assert line_with(done.stderr, "--on-end", "3")
    assert line_with(kvjobs("show", "1").out, "1 of 1 webhook delivered")
    assert [row["state"] for row in kvjobs("show", "1", "--json").json["webhooks"]] == ["delivered"]


def test_a_missing_term_is_met_or_flagged(machine: Machine, kvjobs: Kvjobs) -> None:
    texts = ["Rain is expected in Oxford on Monday.", "Snow is falling in Kelso."]
    corpus, glossary = machine.folder / "two.jsonl", machine.folder / "terms.tsv"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    glossary.write_text("rain\t大雨\nsnow\tЖ\n", encoding="utf-8")

    done = kvjobs("submit", corpus, "--glossary", glossary, "--wait", "-o", machine.folder / "terms.jsonl")

    assert done.exit_code == 0, done.err
    met, flagged = records(machine.folder / "terms.jsonl")
    assert "大雨" in str(met["translation"])
    assert "flags" not in met
    assert flagged["flags"] == ["term-missing"]
    phases = {row["group"] for row in kvjobs("steps", "last", "--by", "phase", "--json").json}
    assert phases >= {"decode", "decode.terms", "encode.terms"}
