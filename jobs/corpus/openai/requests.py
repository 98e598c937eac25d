"""
A request of a batch file as a document: its payload, taken out of the values of its line.

    /v1/chat/completions   {"messages": [...]}                    messages; to translate, the text of the last one
    /v1/completions        {"prompt": "..."}                      a prompt; with echo, a text to score
    /v1/rerank             {"query": "...", "documents": [...]}   a query with its candidates
    /v1/score              {"text_1": "...", "text_2": [...]}     likewise

What is left of the line are the document's other fields, `body` among them, from which an answer takes what it repeats.

Knows: what a request has to contain. Does not know: files, ids, tables.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import orjson

from jobs.corpus.candidates import check_candidates
from jobs.corpus.jsonl import read_jsonl
from jobs.corpus.messages import check_messages, read_messages
from jobs.corpus.openai.fields import check_fields, own_options, plain, problem_of, written
from jobs.corpus.openai.request_kind import ENDPOINTS, Endpoint, RequestKind, is_echo
from jobs.corpus.payload import payload_of_candidates
from jobs.documents import (
    Payload,
    Problem,
    Record,
    Reject,
    Rejected,
    check_text,
    estimate_tokens,
    kind_of,
    quoted,
)
from jobs.tasks.generate import GenerateOptions

ID = "custom_id"
_LINE = '{"custom_id": "...", "method": "POST", "url": "/v1/chat/completions", "body": {...}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """What the requests of a batch file have in common: a job answers one endpoint, with one model, by one task."""

    kind: RequestKind
    model: str | None  # that each request names; None: the command names it, whatever the requests say
    options: GenerateOptions | None = None  # of the job, where it generates

    @property
    def reading(self) -> dict[str, str]:
        """What the job keeps of it."""
        named = {} if self.model is None else {"requested_model": self.model}
        return {"requests": self.kind.value, **named}


def read_requests(stream: BufferedReader, max_line_bytes: int, requests: Requests) -> Iterator[Record]:
    """A document per request; its id is its custom_id, without which it is rejected."""
    numbers = itertools.count()
    for record in read_jsonl(
        stream, ID, "", max_line_bytes, lambda values: take_request(values, requests, next(numbers))
    ):
        if record.unnamed:
            reason = f"{ID}: the request has none; give each of the file a text of its own"
            yield Rejected(record.position, None, False, record.line, Reject.BAD_REQUEST, reason)
        else:
            yield record


def take_request(values: dict[str, Any], requests: Requests, number: int) -> Payload | Problem:
    """Remove the payload from the values of a line, whose id was removed before. `number`: the place of the request in
    its file, which is its seed where it gives none."""
    if (problem := _check_line(values, requests)) is not None:
        return problem
    body: dict[str, Any] = values["body"]
    if (problem := check_fields(body, requests.kind)) is not None:
        return problem
    match requests.kind:
        case RequestKind.CHAT | RequestKind.COMPLETION:
            own = own_options(body, number, requests.options or GenerateOptions())
            if isinstance(own, Problem):
                return own
            return _messages(body, own) if requests.kind is RequestKind.CHAT else _prompt(body, own)
        case RequestKind.TRANSLATION:
            return _last_text(body)
        case RequestKind.ECHO:
            return _scored_text(body)
        case RequestKind.RERANK:
            return _query(body, "query", "documents")
        case RequestKind.SCORE:
            return _query_of_score(body)


def put_request_back(values: dict[str, Any], payload: str, kind: RequestKind) -> dict[str, Any]:
    """The values of a line again, from what a job stores: its other fields, and its payload."""
    body = dict(values.get("body") or {})
    match kind:
        case RequestKind.CHAT:
            body = {"messages": orjson.loads(payload)["messages"]} | body
        case RequestKind.TRANSLATION:
            before = body.pop("messages", [])
            body = {"messages": [*before, {"role": "user", "content": payload}]} | body
        case RequestKind.COMPLETION:
            body = {"prompt": orjson.loads(payload)["text"]} | body
        case RequestKind.ECHO:
            body = {"prompt": payload} | body
        case RequestKind.RERANK | RequestKind.SCORE:
            query = orjson.loads(payload)
            names = ("query", "documents") if kind is RequestKind.RERANK else ("text_1", "text_2")
            texts = [candidate["text"] for candidate in query["candidates"]]
            body = dict(zip(names, (query["query"], texts), strict=True)) | body
    return {**values, "body": body}


def _check_line(values: Mapping[str, Any], requests: Requests) -> Problem | None:
    """What is wrong with a line around the prompt, if anything."""
    body, url, method = values.get("body"), values.get("url"), values.get("method", "POST")
    if method != "POST":
        return problem_of("method", f"it is {written(method)}; requests of a batch are POST")
    if url is None or type(body) is not dict:
        name = "url" if url is None else "body"
        what = "there is none" if values.get(name) is None else f"it is {kind_of(body)}, not an object"
        return problem_of(name, f"{what}; write {_LINE}")
    endpoint = ENDPOINTS.get(url) if isinstance(url, str) else None
    if endpoint is None:
        return problem_of("url", f"{written(url)} is not done here; known are {', '.join(ENDPOINTS)}")
    if endpoint is not requests.kind.endpoint:
        return problem_of(
            "url",
            f"it is {url}, and the file's first request is for {requests.kind.endpoint}; a batch has one endpoint",
        )
    model = body.get("model")
    if requests.model is not None and model != requests.model:
        what = "there is none" if model is None else f"it is {written(model)}"
        return problem_of("model", f"{what}, and the batch is of {quoted(requests.model)}; a batch has one model")
    if endpoint is Endpoint.COMPLETIONS and is_echo(body) is not (requests.kind is RequestKind.ECHO):
        first = "asks for log-probabilities of its prompt" if requests.kind is RequestKind.ECHO else "does not"
        return problem_of(
            "echo", f"it is {written(body.get('echo'))}, and the batch's first request {first}; write two files"
        )
    return None


def _messages(body: dict[str, Any], own: dict[str, Any]) -> Payload | Problem:
    """The messages with the options of the request."""
    found = check_messages(body.pop("messages", None), **({"options": own} if own else {}))
    return _of_request(found, "messages")


def _prompt(body: dict[str, Any], own: dict[str, Any]) -> Payload | Problem:
    text = _text(body, "prompt")
    if isinstance(text, Problem):
        return text
    payload = {"text": text} | ({"options": own} if own else {})
    return Payload(orjson.dumps(payload).decode(), estimate_tokens(text))


def _last_text(body: dict[str, Any]) -> Payload | Problem:
    """The text of the last message, which is the user's; the other messages stay in the body."""
    messages: Any = body.get("messages")
    found = _of_request(check_messages(messages), "messages")
    if isinstance(found, Problem):
        return found
    last = read_messages(found.text)[-1]
    if last.role != "user":
        return problem_of("messages", f"the last one is of the {last.role}, and what is translated is the user's")
    tokens = estimate_tokens(last.content)
    limit = next((plain(body[name]) for name in _LIMITS if body.get(name) is not None), None)
    if limit is not None and (type(limit) is not int or limit < 2 * tokens + _SHORT):
        name = next(name for name in _LIMITS if body.get(name) is not None)
        return problem_of(name, f"{written(body[name])} could cut the translation off, which is not done; leave it out")
    body.pop("messages")
    if before := messages[:-1]:
        body["messages"] = before
    return Payload(last.content, tokens)


_LIMITS = ("max_completion_tokens", "max_tokens")
_SHORT = 16  # tokens


def _scored_text(body: dict[str, Any]) -> Payload | Problem:
    logprobs = plain(body.get("logprobs"))
    if isinstance(logprobs, bool) or logprobs not in (None, 0, 1):
        return problem_of("logprobs", f"{written(body['logprobs'])} other tokens are not given; write 0, or 1")
    if plain(body.get("max_tokens")) != 0:
        return problem_of("max_tokens", "with echo, no text is generated: write 0")
    text = _text(body, "prompt")
    return text if isinstance(text, Problem) else Payload(text, estimate_tokens(text))


def _query_of_score(body: dict[str, Any]) -> Payload | Problem:
    """One text, and another or several to score with it."""
    first, second = body.get("text_1"), body.get("text_2")
    if type(first) is list and len(first) == 1:
        body["text_1"] = first[0]
    if type(second) is str:
        body["text_2"] = [second]
    return _query(body, "text_1", "text_2")


def _query(body: dict[str, Any], query_field: str, documents_field: str) -> Payload | Problem:
    """A query with its candidates, whose ids are their numbers from 0, as the answer counts them."""
    query, documents = body.get(query_field), body.get(documents_field)
    if type(query) is not str:
        what = "there is none" if query is None else f"it is {kind_of(query)}, not a string"
        return problem_of(query_field, what)
    if type(documents) is not list or not documents:
        found = "the list is empty" if documents == [] else f"it is {kind_of(documents)}, not a list"
        return problem_of(documents_field, f"{found}; write a list of texts")
    top_n = plain(body.get("top_n"))
    if top_n is not None and (type(top_n) is not int or top_n < 0):
        return problem_of("top_n", f"it is {written(body['top_n'])}, and not a whole number")
    checked = check_candidates(query, [*_candidates(documents)])
    if not isinstance(checked, str):
        return problem_of(documents_field, checked[1])
    body.pop(query_field)
    body.pop(documents_field)
    return payload_of_candidates(checked)


def _candidates(documents: Sequence[Any]) -> Iterator[Any]:
    """The documents as candidates: texts, or objects with a text."""
    for number, document in enumerate(documents):
        text = document.get("text") if type(document) is dict else document
        yield {"id": number, "text": text}


def _text(body: dict[str, Any], field: str) -> str | Problem:
    """The text of a field, or of a list of it alone."""
    text = body.pop(field, None)
    if type(text) is list and len(text) == 1 and type(text[0]) is str:
        (text,) = text
    if type(text) is list:
        many = text and all(type(part) is str for part in text)
        what = f"{len(text)} texts; write a request for each" if many else "a list of tokens; write a text"
        return problem_of(field, f"it is {what}")
    problem = check_text(text, field, "content", body)
    if problem:
        return problem_of(field, problem.reason)
    assert type(text) is str
    return text


def _of_request(found: Payload | Problem, field: str) -> Payload | Problem:
    return problem_of(field, found.reason) if isinstance(found, Problem) else found
