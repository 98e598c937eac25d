"""Scoring and reranking as a user runs them, with a tiny model. The values themselves are tested elsewhere."""

import json
import math
import shutil
from pathlib import Path

import pytest

from jobs.text.formatting import figure
from tests.causal_checkpoints import write_causal_checkpoint
from tests.command_line import Kvjobs, Result
from tests.machine import Machine
from tests.messages import line_with
from worker.model_tools.add.add import Request, add_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a causal language model."""
    folder = tmp_path_factory.mktemp("models")
    checkpoint = write_causal_checkpoint(folder / "checkpoint", "qwen2")
    add_model(Request(source=str(checkpoint), name="tiny"), folder)
    return folder / "tiny"


@pytest.fixture
def tiny(machine: Machine, model: Path) -> str:
    """The name of a causal language model in the home of the machine."""
    shutil.copytree(model, machine.home / "models" / "tiny")
    return "tiny"


@pytest.mark.usefixtures("worker")
def test_a_corpus_is_scored_and_filtered(machine: Machine, kvjobs: Kvjobs, tiny: str) -> None:
    lines = [json.dumps({"n": n, "text": "hello world " * (n + 1), "half": n % 2}) + "\n" for n in range(6)]
    (machine.folder / "c.jsonl").write_text("".join([*lines, "not json\n"]))

    done = kvjobs("submit", "c.jsonl", "--task", "score", "--model", tiny, "--wait", "--token-scores")

    assert (done.exit_code, done.out) == (3, "")  # a line was rejected; scores are not printed without -o
    records = [json.loads(line) for line in kvjobs("export", "last").out.splitlines()]
    scores = [record["score"] for record in records if record["status"] == "ok"]
    assert len(scores) == 6
    for record, score in zip(records, scores, strict=False):
        log_probs = [token["log_prob"] for token in record["tokens"]]
        assert log_probs[0] is None  # the first token has no context, because the tokenizer has no BOS
        assert record["flags"] == ["unscored-first"]
        assert -math.fsum(log_probs[1:]) == pytest.approx(score["nll_sum"])
    whole = math.exp(sum(s["nll_sum"] for s in scores) / sum(s["num_tokens"] for s in scores))
    assert line_with(done.err, "Perplexity", f"{figure(whole)} ")
    (total,) = kvjobs("totals", "last", "--json").json
    assert total["perplexity"] == pytest.approx(whole, rel=1e-9)

    limit = sorted(score["perplexity"] for score in scores)[3]
    kept = kvjobs("export", "last", "--where", f"perplexity < {limit!r}", "--format", "original")
    assert kept.out == "".join(line for line, score in zip(lines, scores, strict=False) if score["perplexity"] < limit)


@pytest.mark.usefixtures("worker")
def test_only_the_new_lines_of_a_grown_corpus_are_scored(machine: Machine, kvjobs: Kvjobs, tiny: str) -> None:
    lines = [json.dumps({"id": n, "text": "hello world " * (n + 1)}) + "\n" for n in range(3)]

    def scored(lines: list[str], *options: str) -> Result:
        (machine.folder / "c.jsonl").write_text("".join(lines))
        done = kvjobs("submit", "c.jsonl", "--task", "score", "--model", tiny, "--wait", "-o", "-", *options)
        assert done.exit_code == 0, done.err
        return done

    first = scored(lines)
    grown = scored([*lines, '{"id": 3, "text": "hello"}\n', '{"id": 4, "text": "hello"}\n'])
    anew = scored([*lines, '{"id": 3, "text": "hello"}\n', '{"id": 4, "text": "hello"}\n'], "--no-reuse")

    assert line_with(grown.err, "4 of 5 ", "reused")  # of the two equal new lines one is scored
    assert line_with(kvjobs("show", "2").out, "4 of 5 ", "reused")
    counted = machine.ask(
        """select j.documents_reused, sum(s.tokens) from v_jobs j join v_steps s on s.job_id = j.job_id
           where s.phase = 'tokenize' group by 1, j.job_id order by j.job_id"""
    )
    assert [reused for reused, _ in counted] == [0, 4, 0]
    (before, one_line, all_lines) = (tokens for _, tokens in counted)
    assert all_lines == before + 2 * one_line
    assert grown.out == anew.out
    assert grown.out.startswith(first.out)


@pytest.mark.usefixtures("worker")
def test_pairs_are_scored_by_a_translation_model(machine: Machine, kvjobs: Kvjobs) -> None:
    (machine.folder / "p.jsonl").write_text(
        '{"en": "It will rain in Arden.", "zh": "雅顿将有雨。"}\n'
        '{"en": "It will rain in Arden.", "zh": "周一有大风。"}\n'
        '{"en": "It will rain in Arden."}\n',
        encoding="utf-8",
    )
    fields = ("--source-field", "en", "--target-field", "zh")

    done = kvjobs("submit", "p.jsonl", "--task", "score", "--model", "demo-en-zh", *fields, "--wait", "-o", "-")

    right, wrong, rejected = (json.loads(line) for line in done.out.splitlines())
    assert right["score"]["nll_sum"] < wrong["score"]["nll_sum"]
    assert rejected["error"]["code"] == "no-text"


@pytest.mark.usefixtures("worker")
def test_a_run_over_a_beir_folder_is_reranked(machine: Machine, kvjobs: Kvjobs, tiny: str) -> None:
    folder = machine.folder / "beir"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text('{"_id": "a", "text": "hello"}\n{"_id": "b", "text": "hello world"}\n')
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "hello"}\n{"_id": "q2", "text": "world"}\n')
    (machine.folder / "bm25.run").write_text("q1 Q0 a 1 2.0 x\nq1 Q0 b 2 1.0 x\nq2 Q0 b 1 1.0 x\n")

    done = kvjobs("submit", "beir", "--task", "rerank", "--model", tiny, "--run", "bm25.run", "--wait")

    assert done.exit_code == 0, done.err
    rankings = [json.loads(line)["ranking"] for line in done.out.splitlines()]
    assert [sorted(one["id"] for one in ranking) for ranking in rankings] == [["a", "b"], ["b"]]
    assert all(one["score"] < 0 and one["first_score"] for ranking in rankings for one in ranking)
    run = [line.split() for line in kvjobs("export", "last", "--format", "trec").out.splitlines()]
    assert [(query, candidate) for query, _, candidate, *_ in run] == [
        (query, one["id"]) for query, ranking in zip(("q1", "q2"), rankings, strict=True) for one in ranking
    ]
