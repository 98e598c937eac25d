"""What the first request of a batch file makes of a submit."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.corpus.openai.requests import Requests
from jobs.errors import SpecError
from jobs.operations.requests import with_requests
from jobs.settings import Settings
from jobs.submission.job_options import SubmitRequest
from jobs.tasks.task import Task

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
ECHO = {"echo": True, "max_tokens": 0}


def planned(
    folder: Path, url: str, named: str, body: dict[str, Any], **options: Any
) -> tuple[SubmitRequest, Requests | None]:
    path = folder / "batch.jsonl"
    path.write_text(json.dumps({"custom_id": "a", "url": url, "body": {"model": named, **body}}))
    settings = Settings(home=folder, models_dir=folder / "models")
    return with_requests(SubmitRequest.read(options), str(path), None, "", settings)


@pytest.mark.parametrize(
    ("url", "model", "body", "task", "options"),
    [
        (CHAT, "demo-en-zh", {}, Task.TRANSLATE, {}),
        (CHAT, "demo-lm", {}, Task.GENERATE, {"chat": True, "max_new_tokens": 2048}),
        (CHAT, "at a server/gpt-4o", {}, Task.GENERATE, {"chat": True, "max_new_tokens": 2048}),
        (COMPLETIONS, "demo-lm", {}, Task.GENERATE, {"chat": False, "max_new_tokens": 16}),
        (COMPLETIONS, "demo-lm", ECHO, Task.SCORE, {"token_scores": True}),
        ("/v2/rerank", "demo-lm", {}, Task.RERANK, {}),
        ("/score", "demo-lm", {}, Task.RERANK, {}),
    ],
)
def test_the_address_and_the_model_of_a_request_say_the_task(
    tmp_path: Path, url: str, model: str, body: dict[str, Any], task: Task, options: dict[str, Any]
) -> None:
    request, requests = planned(tmp_path, url, model, body)

    assert requests is not None
    assert (request.job.task, request.job.model, requests.model) == (task, model, model)
    assert dict(request.of_task) == options


def test_options_of_the_command_are_for_requests_without_their_own(tmp_path: Path) -> None:
    request, requests = planned(tmp_path, CHAT, "demo-lm", {}, task="generate", max_new_tokens=5, model="mine")

    assert (request.of_task["max_new_tokens"], request.job.model) == (5, "mine")
    assert requests is not None
    assert requests.model is None  # whatever the requests name


@pytest.mark.parametrize(
    ("url", "body", "options"),
    [
        (CHAT, {}, {"task": "score"}),
        (COMPLETIONS, {}, {"task": "translate"}),
        (COMPLETIONS, {}, {"task": "score"}),
        (COMPLETIONS, ECHO, {"task": "generate"}),
        (COMPLETIONS, {}, {"task": "generate", "chat": True}),
        (CHAT, {}, {"id_field": "custom_id"}),
        (CHAT, {}, {"text_field": "x"}),
    ],
)
def test_options_that_the_requests_contradict_are_refused(
    tmp_path: Path, url: str, body: dict[str, Any], options: dict[str, Any]
) -> None:
    with pytest.raises(SpecError):
        planned(tmp_path, url, "demo-lm", body, **options)


@pytest.mark.parametrize("model", ["/etc", "../x", "~/models/x"])
def test_a_batch_file_opens_no_folder_by_its_path(tmp_path: Path, model: str) -> None:
    with pytest.raises(SpecError, match="--model"):
        planned(tmp_path, CHAT, model, {})


def test_another_format_is_left_alone(tmp_path: Path) -> None:
    assert planned(tmp_path, CHAT, "demo-lm", {}, format="jsonl")[1] is None
