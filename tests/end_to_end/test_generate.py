"""Continuing prompts as a user does, with a tiny model. The continuations themselves are tested elsewhere."""

import json
import shutil
from pathlib import Path

import pytest

from tests.causal_checkpoints import write_causal_checkpoint
from tests.command_line import Kvjobs
from tests.machine import Machine, until
from tests.messages import line_with
from tests.web_here import web_here
from worker.model_tools.add.add import Request, add_model

TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant] "


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a causal language model with a chat template."""
    folder = tmp_path_factory.mktemp("models")
    checkpoint = write_causal_checkpoint(folder / "checkpoint", "qwen2")
    (checkpoint / "chat_template.jinja").write_text(TEMPLATE)
    add_model(Request(source=str(checkpoint), name="tiny"), folder)
    return folder / "tiny"


@pytest.fixture
def tiny(machine: Machine, model: Path) -> str:
    """The name of the model in the home of the machine."""
    shutil.copytree(model, machine.home / "models" / "tiny")
    return "tiny"


@pytest.mark.usefixtures("worker")
def test_prompts_are_continued_shown_and_exported(machine: Machine, kvjobs: Kvjobs, tiny: str) -> None:
    lines = [json.dumps({"id": f"p{n}", "text": "the rain " * (n + 1), "odd": n % 2}) + "\n" for n in range(5)]
    (machine.folder / "c.jsonl").write_text("".join([*lines, "not json\n"]))
    options = ("--task", "generate", "--model", tiny, "--max-new-tokens", "6", "--wait")

    done = kvjobs("submit", "c.jsonl", *options, "-o", "out.jsonl")

    assert done.exit_code == 3, done.err  # a line was rejected
    assert line_with(" ".join(done.err.split()), "5 of 6 ", "1 rejected")
    records = [json.loads(line) for line in (machine.folder / "out.jsonl").read_text().splitlines()]
    found = [record for record in records if record["status"] == "ok"]
    assert [record["id"] for record in found] == [f"p{n}" for n in range(5)]
    assert {record["finish"] for record in found} <= {"eos", "length"}
    page = kvjobs("show", "last").out
    assert line_with(page, "documents ", "5 of 6 ", "1 rejected\n")
    assert "stop []" not in page
    counted = {name: sum(record["finish"] == name for record in found) for name in ("eos", "length")}
    assert kvjobs("show", "last", "--json").json["finishes"] == {name: n for name, n in counted.items() if n}
    assert line_with(page, f"{counted['length']} ", "(length)")


@pytest.mark.usefixtures("worker")
def test_a_seed_gives_a_chat_the_same_answers_again(machine: Machine, kvjobs: Kvjobs, tiny: str) -> None:
    messages = [{"role": "user", "content": "Rain?"}, {"role": "assistant", "content": "Yes."}]
    documents = [{"text": "the snow"}, {"messages": [*messages, {"role": "user", "content": "Snow?"}]}]
    (machine.folder / "c.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))

    def answered(name: str, *options: str) -> list[str]:
        chat = ("--chat", "--system", "Be brief.", "--temperature", "1", "--max-new-tokens", "8", "--name", name)
        done = kvjobs("submit", "c.jsonl", "--task", "generate", "--model", tiny, *chat, *options, "--wait", "-o", "-")
        assert done.exit_code == 0, done.err
        return [json.loads(line)["generation"] for line in done.out.splitlines()]

    first, again, other = answered("a", "--seed", "1"), answered("b", "--seed", "1", "--batch-size", "1"), answered("c")

    assert len(first) == 2
    assert first == again
    assert first != other


@pytest.mark.usefixtures("worker")
def test_openais_client_gets_the_answers_that_its_chats_get_as_documents(
    machine: Machine, kvjobs: Kvjobs, tiny: str
) -> None:
    from openai import OpenAI  # takes a second to load, which each process would spend to collect the tests

    question = {"role": "user", "content": "Rain?"}
    answer = {"role": "assistant", "content": "Yes."}
    chats = [[{"role": "system", "content": "Be brief."}, question], [question, answer, question]]
    (machine.folder / "c.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    done = kvjobs("submit", "c.jsonl", "--task", "generate", "--model", tiny, "--chat", "--max-new-tokens", 8, "--wait")
    wanted = [json.loads(line) for line in done.out.splitlines()]
    endpoint = "/v1/chat/completions"
    lines = [
        {
            "custom_id": f"{n}",
            "method": "POST",
            "url": endpoint,
            "body": {"model": tiny, "messages": c, "max_tokens": 8},
        }
        for n, c in enumerate(chats)
    ]

    with web_here() as address, OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        file = client.files.create(file="".join(json.dumps(line) + "\n" for line in lines).encode(), purpose="batch")
        batch = client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h")
        until(lambda: client.batches.retrieve(batch.id).status not in ("validating", "in_progress", "finalizing"))
        ended = client.batches.retrieve(batch.id)
        assert ended.output_file_id is not None, ended.errors
        bodies = [
            json.loads(line)["response"]["body"]
            for line in client.files.content(ended.output_file_id).text.splitlines()
        ]

    chosen = [body["choices"][0] for body in bodies]
    assert [choice["message"]["content"] for choice in chosen] == [record["generation"] for record in wanted]
    reason = {"eos": "stop", "length": "length"}
    assert [choice["finish_reason"] for choice in chosen] == [reason[record["finish"]] for record in wanted]


@pytest.mark.usefixtures("worker")
def test_a_document_whose_messages_are_wrong_is_rejected_with_its_reason(
    machine: Machine, kvjobs: Kvjobs, tiny: str
) -> None:
    (machine.folder / "c.jsonl").write_text(
        '{"messages": [{"role": "robot", "content": "Hi"}]}\n{"text": "the rain"}\n'
    )

    done = kvjobs("submit", "c.jsonl", "--task", "generate", "--model", tiny, "--chat", "--wait")

    assert done.exit_code == 3
    assert line_with(kvjobs("show", "last").out, "'robot'", "system, user, assistant")


def test_a_chat_with_a_model_without_a_template_is_refused_in_one_sentence(machine: Machine, kvjobs: Kvjobs) -> None:
    (machine.folder / "c.jsonl").write_text('{"text": "the rain"}\n')

    refused = kvjobs("submit", "c.jsonl", "--task", "generate", "--model", "demo-lm", "--chat")

    assert (refused.exit_code, refused.out) == (2, "")
    assert refused.err == "Error: the model has no chat template: leave --chat out, or name another --model\n"
