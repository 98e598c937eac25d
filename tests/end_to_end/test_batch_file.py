"""A batch file of OpenAI through a worker, as `vllm run-batch -i -o` is called."""

import json

import pytest

from tests.command_line import Kvjobs
from tests.machine import Machine


@pytest.mark.usefixtures("worker")
def test_a_batch_file_becomes_output_lines_in_its_order(machine: Machine, kvjobs: Kvjobs) -> None:
    bodies = [{"prompt": "Snow will", "max_tokens": 2 + number % 3} for number in range(9)]
    bodies[4] |= {"n": 2}
    lines = [
        {"custom_id": f"r{number}", "method": "POST", "url": "/v1/completions", "body": {"model": "demo-lm", **body}}
        for number, body in enumerate(bodies)
    ]
    (machine.folder / "b.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    done = kvjobs("submit", "b.jsonl", "--wait", "-o", "out.jsonl")

    assert done.exit_code == 3, done.err  # a request was refused
    found = [json.loads(line) for line in (machine.folder / "out.jsonl").read_text().splitlines()]
    assert [line["custom_id"] for line in found] == [f"r{number}" for number in range(9)]
    assert [line["custom_id"] for line in found if line["error"]] == ["r4"]
    for line, body in zip(found, bodies, strict=True):
        if not line["error"]:
            assert line["response"]["body"]["usage"]["completion_tokens"] == body["max_tokens"]
