"""The provider ollama as a lane asks it, and stand-ins of its server that answer in a wrong way."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jobs.answers import Answers, Unanswered
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.outcome import Outcome
from jobs.providers import Choice
from jobs.settings import Settings
from jobs.spec import JobSpec
from jobs.tasks.kinds import OPTIONS, Options
from jobs.tasks.translate import TranslateOptions
from tests.ollama_stand_in import OllamaStandIn
from tests.rows import batch_of
from tests.scripted_api import ScriptedApi
from worker.engine.runtime.run_context import RunContext
from worker.providers.available.ollama import OllamaProvider
from worker.providers.protocol import ProviderJob

TO_GERMAN = TranslateOptions(target_language="de")
TEXTS = ["Rain in Arden.", "Snow in Kelso on Friday."]
LONG = "Rain. " * 100
CHAT = "/api/chat"
STARTED: list[OllamaProvider] = []


def job(options: Options = TO_GERMAN, model: str = "m") -> ProviderJob:
    task = next(task for task, kind in OPTIONS.items() if isinstance(options, kind))
    return ProviderJob(
        JobSpec(task=task, model="demo-en-de", model_revision="0", options=options), Choice("ollama", model)
    )


def provider(api: ScriptedApi, **settings: Any) -> OllamaProvider:
    values = {"ollama_host": f"http://127.0.0.1:{api.port}", "ollama_timeout_s": 10.0} | settings
    arguments = WorkerArguments(Settings(home=Path("nowhere"), models_dir=Path("nowhere"), **values))
    STARTED.append(OllamaProvider.start(arguments))
    return STARTED[-1]


def answer(api: ScriptedApi, texts: Sequence[str], options: Options = TO_GERMAN, **settings: Any) -> Answers:
    lane = provider(api, **settings).new_lane()
    lane.open(job(options))
    return lane.process(job(options), batch_of(texts), RunContext())


def only(outcomes: Sequence[Outcome | Unanswered]) -> Any:
    (outcome,) = outcomes
    return outcome


def failing(**values: Any) -> Callable[[], OllamaStandIn]:
    """Makes a server that fails in a way."""
    return lambda: OllamaStandIn(**values)


def change(path: str, **fields: Any) -> Callable[[str, Any], Any]:
    """An answer at one path with other fields."""
    return lambda asked, answer: answer | fields if asked == path else answer
