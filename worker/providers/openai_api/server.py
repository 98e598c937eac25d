"""
A server with the API of OpenAI: the requests for one document.

Knows: requests, and what an answer means for a document. Does not know: lanes, several documents.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jobs.answers import Unanswered
from jobs.corpus.own_options import own_prompt
from jobs.outcome import Failed, Outcome
from jobs.providers import Reason
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.translate import TranslateOptions
from worker.engine.tasks.rerank.prompt_templates import template_of
from worker.engine.tasks.rerank.rerank_payload import BAD_PAYLOAD, RerankPayload
from worker.providers.chat.translation import (
    ChatAnswer,
    LanguagePair,
    outcome_of,
    passed_through,
    prompt_of,
    thoughts_alone,
    without_thoughts,
)
from worker.providers.http.client import Exchange, JsonClient, RequestRefused, UsageCount, shown
from worker.providers.http.document_requests import TooLong, until_unanswered
from worker.providers.openai_api.answers import (
    ChatChoice,
    Completion,
    read_chat,
    read_completion,
    read_continuation,
    read_model_names,
    read_ranking,
    read_usage,
)
from worker.providers.openai_api.outcomes import (
    CHAT,
    CHAT_LOG_PROBS,
    Fields,
    RankedText,
    candidates_with_text,
    continuation_of,
    ranking_of,
    request_of,
    score_of,
    score_of_part,
    why_not_continue,
)
from worker.providers.openai_api.prompt_scores import Complete, PromptScorer, TextDeclined
from worker.providers.protocol import ProviderFailure

SHOWN_MODELS = 5
NO_SUCH_PATH = (404, 405)
TOO_LARGE = 413
# OpenAI, vLLM, Ollama (HTTP 404); llama-cpp-python, LiteLLM (400).
_NO_MODEL = re.compile(
    r"\bmodel\b.{0,150}\b(not exist|not found|decommissioned)|\b(unknown|no such|invalid) model", re.I
)
# What servers say of a prompt that is longer than their model's context: HTTP 400 (vLLM, OpenAI, llama.cpp), 422 (TGI).
TOO_LONG = ("context", "too long", "maximum", "max_model_len", "exceed", "must have less than", "must be <=")


@dataclass(slots=True)
class ServedModel:
    """One model of one server, opened for one task."""

    client: JsonClient
    model: str
    scorer: PromptScorer | None = None  # of scoring, and of reranking without an endpoint
    refused: set[str] = field(default_factory=set)  # fields that the server has refused, by the word that names them

    async def post(self, path: str, body: dict[str, Any], exchange: Exchange, usage: UsageCount) -> Any:
        """Raises RequestRefused and ProviderFailure; the latter for a model, and for a path, that the server does not
        have."""
        own = Exchange()
        try:
            answer = await self.client.post(path, {"model": self.model, **body}, own)
            tokens = read_usage(answer)
            # Only the last attempt was answered.
            own.timings[-1] = replace(own.timings[-1], tokens=tokens.prompt + tokens.completion)
        except RequestRefused as refused:
            if refused.status in (400, 404) and _NO_MODEL.search(refused.message):
                raise ProviderFailure(Reason.NO_MODEL, f"the server has no model {self.model}: {refused}") from None
            if refused.status in NO_SUCH_PATH:
                missing = f"{self.client.access.host} has no {path} ({refused})"
                advice = "check the setting openai_base_url, which for most servers ends in /v1"
                raise ProviderFailure(Reason.BAD_ANSWER, f"{missing}: {advice}") from None
            raise
        finally:
            exchange.timings += own.timings
        usage.add(tokens.prompt, tokens.completion)
        return answer

    async def post_for_events(self, body: dict[str, Any], exchange: Exchange, usage: UsageCount) -> list[Any]:
        """The events of a streamed completion. Raises RequestRefused and ProviderFailure."""
        events = await self.client.post_for_events("/completions", {"model": self.model, **body}, exchange)
        tokens = read_usage(events[-1] if events else None)
        usage.add(tokens.prompt, tokens.completion)
        return events

    async def check_model(self, exchange: Exchange) -> None:
        """Raise ProviderFailure where the server lists its models, and this is none of them: some answer with another
        one instead. A server that lists none is trusted."""
        try:
            names = read_model_names(await self.client.get("/models", exchange))
        except RequestRefused:
            return
        if names and self.model not in names:
            others = ", ".join(map(shown, names[:SHOWN_MODELS])) + (" …" if names[SHOWN_MODELS:] else "")
            raise ProviderFailure(Reason.NO_MODEL, f"the server has no model {self.model}; it has {others}")

    async def open_scorer(self, exchange: Exchange, usage: UsageCount) -> None:
        """Find out how the server tells log-probabilities. Raises ProviderFailure."""
        self.scorer = await PromptScorer.probe(self._complete(exchange, usage))

    def _complete(self, exchange: Exchange, usage: UsageCount) -> Complete:
        async def complete(body: dict[str, Any]) -> Completion:
            if body.get("stream"):
                events = await self.post_for_events(body, exchange, usage)
                return read_completion(events[0] if events else None)
            return read_completion(await self.post("/completions", body, exchange, usage))

        return complete

    async def translate(
        self,
        text: str,
        languages: LanguagePair,
        options: TranslateOptions,
        template: str,
        exchange: Exchange,
        usage: UsageCount,
    ) -> Outcome | Unanswered:
        """Translate a document as a whole. Raises ProviderFailure."""
        if unchanged := passed_through(text, options.source_language):
            return unchanged
        body: dict[str, Any] = {
            "messages": [{"role": "user", "content": prompt_of(text, languages, template)}],
            "temperature": 0,
            "seed": 0,
        }
        if options.max_new_tokens is not None:
            body["max_tokens"] = options.max_new_tokens
        try:
            found = read_chat(await self._request(CHAT, body, CHAT_LOG_PROBS, exchange, usage))
        except RequestRefused as refused:
            return refusal_of_document(refused)
        return translation_of(text, found)

    async def generate(
        self, text: str, options: GenerateOptions, exchange: Exchange, usage: UsageCount
    ) -> Outcome | Unanswered:
        """Continue a prompt, or answer a chat. Raises ProviderFailure."""
        text, options = own_prompt(text, options)
        if why := why_not_continue(text, options, self.client.access.base_url):
            return Unanswered(Reason.DECLINED, why)
        path, body, optional = request_of(text, options)
        try:
            answer = await self._request(path, body, optional, exchange, usage)
        except RequestRefused as refused:
            if options.top_k and "top_k" in refused.message.lower():
                unknown = f"the server does not take top_k, for which --top-k asks ({refused})"
                raise ProviderFailure(Reason.OPEN_ERROR, unknown) from None
            return refusal_of_document(refused)
        found = read_chat(answer, options.stop) if options.chat else read_continuation(answer, options.stop)
        return continuation_of(found, options)

    async def _request(
        self, path: str, body: Fields, optional: Mapping[str, Fields], exchange: Exchange, usage: UsageCount
    ) -> Any:
        """With the `optional` fields that the server takes; one that refuses some is asked without them from then on.

        llama-cpp-python refuses log-probabilities with HTTP 500, if it was started with --logits_all false.
        """
        while True:
            taken = {word: fields for word, fields in optional.items() if word not in self.refused}
            try:
                fields = {name: value for values in taken.values() for name, value in values.items()}
                return await self.post(path, {**body, **fields}, exchange, usage)
            except (RequestRefused, ProviderFailure) as refused:
                is_failure = isinstance(refused, ProviderFailure) and refused.reason is not Reason.SERVER_ERROR
                named = {word for word in taken if word in str(refused).lower()}
                if is_failure or not named:
                    raise
                self.refused |= named

    async def score(
        self, text: str, options: ScoreOptions, exchange: Exchange, usage: UsageCount
    ) -> Outcome | Unanswered:
        """Score a document. Raises ProviderFailure."""
        assert self.scorer is not None
        try:
            found = await self.scorer.score(text, self._complete(exchange, usage))
        except RequestRefused as refused:
            return refusal_of_document(refused)
        except TextDeclined as why:
            return Unanswered(Reason.DECLINED, str(why))
        return score_of(text, found, keeps_tokens=options.token_scores)

    async def rerank_by_endpoint(
        self, payload: str, options: RerankOptions, exchange: Exchange, usage: UsageCount
    ) -> Outcome | Unanswered:
        """Rank the candidates of a query by /rerank. Raises ProviderFailure."""
        query = RerankPayload.read(payload)
        if query is None:
            return BAD_PAYLOAD
        texts = [candidate.text for candidate in candidates_with_text(query)]
        if not texts:
            return ranking_of(payload, [], options)
        try:
            found = await self.rank(query.query, texts, exchange, usage)
        except RequestRefused as refused:
            return refusal_of_document(refused)
        return ranking_of(payload, [RankedText(score, 0, 0) for score in found], options)

    async def rank(
        self, query: str, documents: Sequence[str | None], exchange: Exchange, usage: UsageCount
    ) -> list[float]:
        """The relevance of each document, by /rerank. Raises RequestRefused and ProviderFailure."""
        body = {"query": query, "documents": list(documents), "top_n": len(documents)}
        return read_ranking(await self.post("/rerank", body, exchange, usage), len(documents))

    async def rerank_by_scores(
        self, payload: str, options: RerankOptions, exchange: Exchange, usage: UsageCount
    ) -> Outcome | Unanswered:
        """Rank the candidates of a query by log-probabilities. Raises ProviderFailure."""
        assert self.scorer is not None
        query = RerankPayload.read(payload)
        if query is None:
            return BAD_PAYLOAD
        scorer, complete = self.scorer, self._complete(exchange, usage)

        async def score(document: str) -> RankedText | Unanswered:
            given, scored = template_of(options).split(query.query, document)
            try:
                return score_of_part(given, scored, await scorer.score(given + scored, complete))
            except RequestRefused as refused:
                return refusal_of_document(refused, "it cannot score a candidate: ")
            except TextDeclined as why:
                return Unanswered(Reason.DECLINED, f"it cannot score a candidate: {why}")

        texts = [str(candidate.text) for candidate in candidates_with_text(query)]
        scores = await until_unanswered(texts, score, concurrency=self.client.access.concurrency)
        return scores if isinstance(scores, Unanswered) else ranking_of(payload, scores, options)


def translation_of(text: str, found: ChatChoice) -> Outcome | Unanswered:
    """The outcome of a document, from a chat model's answer."""
    if found.refusal or found.finish_reason == "content_filter":
        why = shown(found.refusal) if found.refusal else "content filter"
        return Failed("refused", f"the chat model refuses to translate it: {why}")
    translated, has_block = without_thoughts(text, found.text)
    # OpenAI does not show what its models think: then an answer of no text has reached the limit on tokens.
    if not translated.strip() and (has_block or found.has_thoughts or found.finish_reason == "length"):
        return thoughts_alone(found.usage.completion)
    log_probs = None if has_block else found.log_probs
    answer = ChatAnswer(
        text=translated,
        is_complete=found.finish_reason != "length",
        num_prompt_tokens=found.usage.prompt,
        # So that a perplexity is the mean over the tokens of the sum.
        num_completion_tokens=found.usage.completion if log_probs is None else len(log_probs),
        log_probs=log_probs,
    )
    return outcome_of(text, answer)


def refusal_of_document(refused: RequestRefused, where: str = "") -> Unanswered:
    """A document that the server does not take. It may suit another engine, such as one that cuts long documents.
    `where`: words before the reason."""
    if refused.status == TOO_LARGE or any(word in refused.message.lower() for word in TOO_LONG):
        return TooLong(Reason.DECLINED, f"{where}it is longer than the server takes ({refused})")
    return Unanswered(Reason.DECLINED, f"{where}the server refuses it ({refused})")
