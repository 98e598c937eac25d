"""The provider openai: any server that speaks the API of OpenAI (vLLM, llama.cpp, llama-cpp-python, OpenAI itself)."""

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from jobs.answers import Answers, Unanswered
from jobs.errors import Stopped
from jobs.outcome import Outcome, StepTiming
from jobs.provider_settings.server_address import OPENAI_URL
from jobs.providers import Reason
from jobs.settings import Settings
from jobs.store.queue.batches import Batch
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from jobs.worker_port import ProviderCheck
from worker.engine.runtime.run_context import RunContext
from worker.providers.chat.translation import language_pair, why_not_translate
from worker.providers.http.client import Exchange, RequestRefused, ServerAccess, UsageCount
from worker.providers.http.document_requests import LOOK_EVERY_S, answer_documents
from worker.providers.http.server_provider import ServerProvider, check_server
from worker.providers.openai_api.outcomes import why_not_generate, why_not_rerank, why_not_score
from worker.providers.openai_api.server import ServedModel
from worker.providers.protocol import Provider, ProviderFailure, ProviderJob

MAX_OPENINGS = 100
PROBED_QUERY, PROBED_DOCUMENTS = "rain", ["It will rain.", "It will be dry."]


class OpenAIProvider(ServerProvider):
    """One server of this API, opened once for each model and task."""

    name: ClassVar[str] = "openai"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._lock = threading.Lock()
        self._opened: dict[tuple[str, Task], ServedModel] = {}  # by the model's name at the server
        # What opening took and cost, until a batch records it. Bounded: a server may be dead for days.
        self._opening: deque[tuple[Sequence[StepTiming], UsageCount]] = deque(maxlen=MAX_OPENINGS)

    @staticmethod
    def access(settings: Settings) -> ServerAccess:
        return ServerAccess(
            base_url=settings.openai_base_url,
            key=settings.openai_api_key,
            concurrency=settings.openai_concurrency,
            timeout_s=settings.openai_timeout_s,
            attempts=settings.openai_attempts,
        )

    def why_not(self, job: ProviderJob) -> str | None:
        if not self._access.base_url:
            return "no server is set: set openai_base_url"
        match job.spec.options:
            case TranslateOptions():
                return why_not_translate(job.spec)
            case ScoreOptions() as options:
                return why_not_score(options)
            case RerankOptions() as options:
                return why_not_rerank(options)
            case GenerateOptions() as options:
                return why_not_generate(options, self._access.base_url)

    def check(self) -> ProviderCheck:
        mend = "set KVJOBS_OPENAI_BASE_URL and KVJOBS_OPENAI_API_KEY (or OPENAI_BASE_URL, OPENAI_API_KEY)"
        return check_server(self.name, self._access, "/models", mend=mend)

    def open(self, job: ProviderJob) -> None:
        self._served(job, RunContext())

    def _served(self, job: ProviderJob, run: RunContext) -> ServedModel:
        """The job's model, opened by the first lane that asks for it. Raises ProviderFailure, and Stopped."""
        if not self._access.key and self._access.base_url == OPENAI_URL:
            raise ProviderFailure(
                Reason.NO_ACCESS,
                f"no key is set for {self._access.host}: set KVJOBS_OPENAI_API_KEY or OPENAI_API_KEY; for a server of "
                "your own, set KVJOBS_OPENAI_BASE_URL",
            )
        while not self._lock.acquire(timeout=LOOK_EVERY_S):
            if run.should_stop():
                raise Stopped("stopped while another lane opens the model")
        try:
            model = self._opened.get((job.model, job.spec.task))
            if model is None:
                model, exchange, usage = ServedModel(self._client, job.model), Exchange(), self._new_usage()
                try:
                    self._loop.run(self._open(job.spec.task, model, exchange, usage), run)
                finally:  # also where it fails: it was paid for
                    self._opening.append((exchange.timings, usage))
                self._opened[job.model, job.spec.task] = model
            return model
        finally:
            self._lock.release()

    async def _open(self, task: Task, model: ServedModel, exchange: Exchange, usage: UsageCount) -> None:
        await model.check_model(exchange)
        if task is Task.SCORE or (task is Task.RERANK and not await self._has_endpoint(model, exchange, usage)):
            await model.open_scorer(exchange, usage)

    async def _has_endpoint(self, model: ServedModel, exchange: Exchange, usage: UsageCount) -> bool:
        """Whether /rerank is to be used. Raises ProviderFailure where the settings ask for it and it is not there."""
        way = self._settings.openai_rerank
        if way == "scoring":
            return False
        try:
            await model.rank(PROBED_QUERY, PROBED_DOCUMENTS, exchange, usage)
        except (RequestRefused, ProviderFailure) as error:
            # A server that fails may have it: by scores instead, its queries would be ranked in two ways.
            if isinstance(error, ProviderFailure) and error.reason is not Reason.BAD_ANSWER:
                raise
            if way == "endpoint":
                raise ProviderFailure(Reason.BAD_ANSWER, f"the server has no /rerank: {error}") from None
            return False
        return True

    def process(self, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
        model, usage = self._served(job, run), self._new_usage()
        template = self._settings.openai_template
        languages = language_pair(job.spec) if job.spec.task is Task.TRANSLATE else None

        async def request(text: str, exchange: Exchange) -> Outcome | Unanswered:
            match job.spec.options:
                case TranslateOptions() as options:
                    assert languages is not None  # else `why_not` would have said so
                    return await model.translate(text, languages, options, template, exchange, usage)
                case ScoreOptions() as options:
                    return await model.score(text, options, exchange, usage)
                case RerankOptions() as options:
                    if model.scorer is None:
                        return await model.rerank_by_endpoint(text, options, exchange, usage)
                    return await model.rerank_by_scores(text, options, exchange, usage)
                case GenerateOptions() as options:
                    return await model.generate(text, options, exchange, usage)

        answers = answer_documents(self._loop, documents, request, concurrency=self._access.concurrency, run=run)
        if answers.failure:
            # The server may come back with another model, or as another server: it is probed again.
            self._opened.pop((job.model, job.spec.task), None)
        timings = [*answers.timings]
        with suppress(IndexError):  # none is left; other lanes take from it too
            while True:
                opening_timings, opening_usage = self._opening.popleft()
                timings = [*opening_timings, *timings]
                usage.add_up(opening_usage)
        return replace(answers, timings=timings, usage=[usage.total()])

    def _new_usage(self) -> UsageCount:
        return UsageCount(self.name, self._settings.openai_price)


PROVIDER: type[Provider] = OpenAIProvider
