"""A submit of a batch file of OpenAI: its requests say the task, the model and some options of the job."""

import os
from dataclasses import replace
from typing import BinaryIO

from jobs.corpus.corpus import Corpus
from jobs.corpus.corpus_format import Format
from jobs.corpus.openai.first_request import FirstRequest, find_first_request
from jobs.corpus.openai.request_kind import RequestKind
from jobs.corpus.openai.requests import Requests
from jobs.errors import ModelError, NotFoundError, SpecError
from jobs.settings import Settings
from jobs.submission.job_options import SubmitRequest
from jobs.tasks.rerank import RUN
from jobs.tasks.shared_options import TEXT_FIELD
from jobs.tasks.task import Task
from jobs.worker_port import worker_port


def with_requests(
    request: SubmitRequest, path: str, stream: BinaryIO | None, source: str, settings: Settings
) -> tuple[SubmitRequest, Requests | None]:
    """The submit with what the requests of a batch file ask for, and what these have in common; of another corpus the
    submit as it is, and None. `path`, `stream`, `source`: of the corpus.

    Raises CorpusError where the submit says that the corpus is a batch file, and it has no request, and SpecError for
    an option that the requests contradict.
    """
    is_asked = request.job.format == Format.OPENAI
    if not is_asked and (request.job.format is not None or RUN.name in request.of_task):
        return request, None
    how = request.job
    named = Corpus(path=path, stream=stream, stream_source=source, format=how.format, encoding=how.encoding)
    first = find_first_request(named, is_asked=is_asked)
    if first is None:
        return request, None
    _refuse_fields(request)
    model = request.job.model or _named(first.model, settings)
    kind = _kind(first, request.job.task if "task" in request.given else None, model, settings)
    requests = Requests(kind=kind, model=None if request.job.model is not None else first.model)
    if request.of_task.get("chat", kind.is_chat) is not kind.is_chat:
        what = "a" if kind.is_chat else "no"
        raise SpecError(f"the requests are for {kind.endpoint}, which is {what} chat: leave --chat out")
    of_task = {**kind.options, **request.of_task}
    return replace(request, job=replace(request.job, task=kind.task, model=model), of_task=of_task), requests


def _refuse_fields(request: SubmitRequest) -> None:
    """Raise SpecError for an option that says which fields of a line are read."""
    for name in ("id_field", TEXT_FIELD.name):
        if name in request.given or name in request.of_task:
            flag = f"--{name.replace('_', '-')}"
            raise SpecError(
                f"{flag} has no meaning for a batch file, whose requests are read as OpenAI has them; leave it out"
            )


def _named(model: str, settings: Settings) -> str:
    """The model of the requests, which is a name: a file of somebody else opens no folder of this machine. (At a server
    a name may have a slash.)"""
    is_path = model.startswith(("/", ".", "~")) or ".." in model or "\0" in model
    if is_path or (os.path.isdir(model) and not (settings.models_dir / model).is_dir()):
        raise SpecError(
            f"the requests are for the model {model!r}, and a path is not taken from a batch file; name it with --model"
        )
    return model


def _kind(first: FirstRequest, asked: Task | None, model: str, settings: Settings) -> RequestKind:
    """What the requests ask for: of what their address may mean, what the model does. Raises SpecError where the task
    that was `asked` for does not answer them."""
    possible = [kind for kind in first.kinds if asked in (None, kind.task)]
    if not possible:
        echo = " with echo" if RequestKind.ECHO in first.kinds else ""
        raise SpecError(
            f"the requests are for {first.kinds[0].endpoint}{echo}, which the task {asked} does not answer: leave "
            "--task out"
        )
    if len(possible) == 1:
        return possible[0]
    try:
        does = worker_port().tasks_of(model, settings.models_dir)
    except (NotFoundError, ModelError):  # a provider may have it; else the check of the model says what is wrong
        does = ()
    return next((kind for kind in possible if kind.task in does), possible[0])
