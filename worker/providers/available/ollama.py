"""The provider ollama: a server of Ollama, which continues prompts, translates by chat, and ranks by an answer Yes or
No."""

import threading
from dataclasses import replace
from typing import ClassVar

from jobs.answers import Answers, Unanswered
from jobs.corpus.own_options import own_prompt
from jobs.outcome import Outcome
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
from worker.providers.chat.repetition_rules import why_not_against_repetition
from worker.providers.chat.translation import language_pair, passed_through, prompt_of, why_not_translate
from worker.providers.http.client import Exchange, ServerAccess, UsageCount
from worker.providers.http.document_requests import answer_documents
from worker.providers.http.server_provider import ServerProvider, check_server
from worker.providers.ollama_api.outcomes import continuation_of, limit_of, request_of, translation_of
from worker.providers.ollama_api.reranking import check_answers, rerank, why_not_rerank
from worker.providers.ollama_api.server import LISTS_LOG_PROBS, REFUSES_LONG_TEXTS, Declined, OllamaModel
from worker.providers.protocol import Provider, ProviderFailure, ProviderJob

NO_SCORES = (
    "Ollama returns no log-probabilities of the prompt, so it cannot score a text; llamacpp can with the same GGUF file"
)


class OllamaProvider(ServerProvider):
    """One server of this API, opened once for each model and task."""

    name: ClassVar[str] = "ollama"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._opening = threading.Lock()
        self._opened: dict[tuple[str, Task], OllamaModel] = {}  # by the model's name at the server

    @staticmethod
    def access(settings: Settings) -> ServerAccess:
        return ServerAccess(
            base_url=settings.ollama_host,
            concurrency=settings.ollama_concurrency,
            timeout_s=settings.ollama_timeout_s,
        )

    def why_not(self, job: ProviderJob) -> str | None:
        if not self._access.base_url:
            return "no server is set: set ollama_host"
        match job.spec.options:
            case TranslateOptions():
                return why_not_translate(job.spec)
            case ScoreOptions():
                return NO_SCORES
            case RerankOptions() as options:
                return why_not_rerank(options)
            case GenerateOptions() as options:
                return why_not_against_repetition(options)

    def check(self) -> ProviderCheck:
        mend = "start it (ollama serve), or set KVJOBS_OLLAMA_HOST (or OLLAMA_HOST) to where it runs"
        return check_server(self.name, self._access, "/api/version", mend=mend)

    def open(self, job: ProviderJob) -> None:
        self._model_of(job)

    def process(self, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
        model, usage = self._model_of(job), UsageCount(self.name)

        async def request(text: str, exchange: Exchange) -> Outcome | Unanswered:
            match job.spec.options:
                case RerankOptions() as options:
                    return await rerank(model, text, options, exchange, usage)
                case GenerateOptions() as options:
                    return await _generate(model, text, options, exchange, usage)
            return await self._translate(job, model, text, exchange, usage)

        answers = answer_documents(self._loop, documents, request, concurrency=self._access.concurrency, run=run)
        if answers.failure:
            # What comes back may be another version, or have another context.
            self._opened.pop((job.model, job.spec.task), None)
        return replace(answers, usage=[usage.total()])

    def _model_of(self, job: ProviderJob) -> OllamaModel:
        """The model, which the first lane that needs it opens. Raises ProviderFailure."""
        key = job.model, job.spec.task
        with self._opening:
            model = self._opened.get(key)
            if model is None:
                model = self._opened[key] = self._loop.run(self._open(job), RunContext())
            return model

    async def _open(self, job: ProviderJob) -> OllamaModel:
        model = OllamaModel(self._client, job.model, self._settings.ollama_keep_alive)
        is_ranker = isinstance(job.spec.options, RerankOptions)
        try:
            await model.open(LISTS_LOG_PROBS if is_ranker else REFUSES_LONG_TEXTS)
            if is_ranker:
                await check_answers(model)
        except Declined as why:
            raise ProviderFailure(Reason.OPEN_ERROR, f"the model {job.model} cannot be opened: {why}") from None
        return model

    async def _translate(
        self, job: ProviderJob, model: OllamaModel, text: str, exchange: Exchange, usage: UsageCount
    ) -> Outcome | Unanswered:
        options, languages = job.spec.options, language_pair(job.spec)
        assert isinstance(options, TranslateOptions)
        assert languages is not None  # else `why_not` would have said so
        if unchanged := passed_through(text, options.source_language):
            return unchanged
        prompt = prompt_of(text, languages, self._settings.ollama_template)
        limit = limit_of(text, options.max_new_tokens)
        try:
            return translation_of(text, await model.chat(prompt, exchange, usage, num_predict=limit), limit)
        except Declined as why:
            return why.unanswered()


async def _generate(
    model: OllamaModel, text: str, options: GenerateOptions, exchange: Exchange, usage: UsageCount
) -> Outcome | Unanswered:
    """Continue a prompt. Raises ProviderFailure."""
    text, options = own_prompt(text, options)
    try:
        return continuation_of(await model.request(*request_of(text, options), exchange, usage), options)
    except Declined as why:
        return why.unanswered()


PROVIDER: type[Provider] = OllamaProvider
