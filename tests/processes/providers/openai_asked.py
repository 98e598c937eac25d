"""The provider openai as a lane asks it, and servers on loopback that answer as a test says."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobs.answers import Answers, Unanswered
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.outcome import Outcome
from jobs.providers import ProviderOrder
from jobs.settings import Settings
from jobs.spec import JobSpec
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.task import Task
from tests.rows import SPEC, batch_of
from tests.scripted_api import Request, ScriptedApi, says, serving
from worker.engine.runtime.run_context import RunContext
from worker.providers.available.openai import OpenAIProvider
from worker.providers.protocol import ProviderJob

KEY = "sk-never-shown"
TRANSLATE = replace(SPEC, model="demo-en-zh", providers=ProviderOrder.parse("openai:m"))
RERANK = replace(TRANSLATE, task=Task.RERANK, options=RerankOptions())
TEXTS = ["It will rain.", "It will snow.", "Fog."]
Answer = Callable[[Request], tuple[int, Any]]


def chat(content: str | None = "会下雨。", finish: str = "stop", **message: Any) -> dict[str, Any]:
    """An answer of /chat/completions."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
    return {"choices": [choice], "usage": {"prompt_tokens": 20, "completion_tokens": 4}}


@contextmanager
def asking(answer: Answer, **settings: Any) -> Iterator[tuple[ScriptedApi, "Asked"]]:
    """A server with the model m, and the provider that asks it."""

    def behave(request: Request, connection: Any) -> None:
        if request.path.endswith("/models"):
            says({"data": [{"id": "m"}]})(request, connection)
            return
        status, body = answer(request)
        says(body, status)(request, connection)

    with serving(behave) as api, provider(api, **settings) as asked:
        yield api, asked


@contextmanager
def provider(api: ScriptedApi, **settings: Any) -> Iterator["Asked"]:
    """The provider with a server's address and a key."""
    values = {"openai_attempts": 1, "openai_timeout_s": 5.0, "openai_concurrency": 2} | settings
    own = Settings(
        home=Path("/nowhere"),
        models_dir=Path("/nowhere"),
        openai_base_url=f"http://127.0.0.1:{api.port}/v1",
        openai_api_key=KEY,
        **values,
    )
    opened = OpenAIProvider.start(WorkerArguments(own))
    try:
        yield Asked(opened)
    finally:
        opened.close()


RUN = RunContext()


class Asked:
    """Asks the provider as a lane does."""

    def __init__(self, opened: OpenAIProvider) -> None:
        self._opened = opened

    def __call__(self, spec: JobSpec, texts: list[str], run: RunContext = RUN) -> Answers:
        job = ProviderJob(spec, spec.providers.choices[0])
        assert self._opened.why_not(job) is None
        self._opened.new_lane().open(job)
        return self.process(spec, texts, run)

    def process(self, spec: JobSpec, texts: list[str], run: RunContext) -> Answers:
        """As a lane whose model another lane has closed, after a failure."""
        job = ProviderJob(spec, spec.providers.choices[0])
        return self._opened.new_lane().process(job, batch_of(texts), run)


def always(body: Any, status: int = 200) -> Answer:
    return lambda _: (status, body)


def only(answer: Answers) -> Outcome | Unanswered:
    (outcome,) = answer.outcomes
    return outcome
