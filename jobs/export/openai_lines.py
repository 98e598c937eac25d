"""
The output lines of OpenAI's Batch API: for each request its answer, in the form of the endpoint that it names.

    {"id": "batch_req_...", "custom_id": "...", "response": {"status_code": 200, "request_id": "...", "body": {...}},
     "error": null}

A request without a result has OpenAI's error object as the body of a response with status code 400 or 500, and once
more, shorter, under "error"; one that nobody came to has no response. A job that was not made of a batch file has such
lines too, in the form of the endpoint that fits its task.

Knows: the objects of OpenAI and vLLM. Does not know: files, tables.
"""

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from jobs.corpus.openai.fields import plain
from jobs.corpus.openai.request_kind import RequestKind, kind_in, kind_like
from jobs.documents import Reject
from jobs.errors import SpecError
from jobs.outcome import Flag
from jobs.store.schema.states import DocumentStatus
from jobs.tasks.kinds import KINDS
from jobs.text.json_numbers import read_fields
from jobs.text.json_text import to_json

if TYPE_CHECKING:
    from jobs.store.report.documents.export import ExportedDocument
    from jobs.store.report.job_summary import JobSummary

# Codes of documents that failed because of what they ask for; all others are the server's.
_ASKED_WRONGLY = {
    "too-long": "context_length_exceeded",
    "empty-prompt": "invalid_prompt",
    "chat-template": "invalid_prompt",
}
_NO_RESPONSE = {DocumentStatus.CANCELLED: "batch_cancelled", DocumentStatus.SKIPPED: "skipped"}
_FIELD = re.compile(r"([a-z_][a-z_0-9]*): ")  # at the beginning of why a request was rejected
_TAKEN_ID = re.compile(r"the id ('.*'|\".*\") was used before")  # `jobs.documents.duplicate`
_NOT_ENDED = "waiting"


@dataclass(frozen=True, slots=True)
class OpenAILines:
    """A line a request. The documents must have their text where `needs_text` says so."""

    kind: RequestKind
    model: str
    job_id: int
    created: int  # seconds since 1970

    @property
    def needs_text(self) -> bool:
        """Whether an answer repeats what was asked."""
        return self.kind in (RequestKind.ECHO, RequestKind.RERANK, RequestKind.SCORE)

    def head(self) -> bytes:
        return b""

    def line(self, document: "ExportedDocument") -> bytes:
        own_id, error = f"{self.job_id}_{document.position}", None
        status: int | None = 200
        if document.result:
            body: dict[str, Any] | None = self._body(document, own_id.replace("_", "-"))
        else:
            status, found = error_of(document)
            body = None if status is None else {"error": found}
            error = {"code": found["code"], "message": found["message"]}
        response = body and {"status_code": status, "request_id": f"req_{own_id}", "body": body}
        line = {"id": f"batch_req_{own_id}", "custom_id": _custom_id(document), "response": response, "error": error}
        return to_json(line) + b"\n"

    def tail(self) -> bytes:
        return b""

    def _body(self, document: "ExportedDocument", own_id: str) -> dict[str, Any]:
        result = document.result
        match self.kind:
            case RequestKind.CHAT | RequestKind.TRANSLATION:
                message = {"role": "assistant", "content": result["text"], "refusal": None}
                choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(result)}
                return {"id": f"chatcmpl-{own_id}", **self._made("chat.completion", choice, result)}
            case RequestKind.COMPLETION:
                choice = {"text": result["text"], "index": 0, "logprobs": None, "finish_reason": _finish(result)}
                return {"id": f"cmpl-{own_id}", **self._made("text_completion", choice, result)}
            case RequestKind.ECHO:
                choice = {"text": document.text, "index": 0, "logprobs": _echoed(document), "finish_reason": "length"}
                return {"id": f"cmpl-{own_id}", **self._made("text_completion", choice, result)}
            case RequestKind.RERANK:
                own = {"id": f"rerank-{own_id}", "model": self.model, "usage": self._usage(result)}
                return own | {"results": _ranked(document)}
            case RequestKind.SCORE:
                data = [
                    {"index": ranked["index"], "object": "score", "score": ranked["relevance_score"]}
                    for ranked in sorted(_ranked(document), key=lambda ranked: int(ranked["index"]))
                ]
                about = {"object": "list", "created": self.created, "model": self.model}
                return {"id": f"score-{own_id}", **about, "data": data, "usage": self._usage(result)}

    def _made(self, what: str, choice: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
        own = {"object": what, "created": self.created, "model": self.model}
        return own | {"choices": [choice], "usage": self._usage(result)}

    def _usage(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """The tokens that were read and written; where no text is written, those that were scored were read."""
        fields = {field.counter: field.name for field in KINDS[self.kind.task].fields}
        read, written = result[fields["source_tokens"]], result[fields["target_tokens"]]
        if self.needs_text:
            read, written = written, 0
        details = {"prompt_tokens_details": {"cached_tokens": result["num_shared"]}} if self.kind.generates else {}
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written} | details


def openai_lines(job: "JobSummary") -> OpenAILines:
    """The writer for a job. Raises SpecError for one whose results are no answer to any request."""
    kind = kind_in(job.reading) or kind_like(job.task, json.loads(job.options))
    if kind is None:
        raise SpecError(f"no request of OpenAI asks for what job {job.label} does; choose another --format")
    return OpenAILines(kind, job.model, job.job_id, int(job.created_at.timestamp()))


def error_of(document: "ExportedDocument") -> tuple[int | None, dict[str, Any]]:
    """The status code and OpenAI's error object of a document without a result; None: there is no response."""
    code, message = document.error_code or document.status, document.error or f"the document is {document.status}"
    if document.status in (*_NO_RESPONSE, _NOT_ENDED):
        code = _NO_RESPONSE.get(DocumentStatus(document.status), "") if document.status != _NOT_ENDED else _NOT_ENDED
        return None, {"message": message, "type": "server_error", "param": None, "code": code}
    is_wrong = document.status == DocumentStatus.REJECTED or code in _ASKED_WRONGLY
    named = _FIELD.match(message) if code == Reject.BAD_REQUEST else None
    return 400 if is_wrong else 500, {
        "message": message,
        "type": "invalid_request_error" if is_wrong else "server_error",
        "param": named[1] if named else None,
        "code": _ASKED_WRONGLY.get(code, code.replace("-", "_")),
    }


def _custom_id(document: "ExportedDocument") -> Any:
    """The id of the request; null where its line has none that can be read."""
    if document.external_id is not None:
        return orjson.Fragment(document.external_id) if document.numeric_id else document.external_id
    # An id belongs to one document: of another request that has it, the error says it, shortened if it is long.
    found = _TAKEN_ID.match(document.error or "") if document.error_code == Reject.DUPLICATE_ID else None
    return None if found is None or found[1].endswith("…'") else ast.literal_eval(found[1])


def _finish(result: Mapping[str, Any]) -> str:
    """Why a text ended; every one that was cut has the flag."""
    return "length" if Flag.TRUNCATED in result["flags"].split() else "stop"


def _echoed(document: "ExportedDocument") -> dict[str, Any]:
    """The tokens of a scored text, as /v1/completions echoes them; where each begins, in characters."""
    tokens = orjson.loads(document.result["token_scores"] or "[]")
    data = (document.text or "").encode()
    offsets, before, at = [], 0, 0
    for token in tokens:
        at += len(data[before : token["start"]].decode(errors="ignore"))
        before = token["start"]
        offsets.append(at)
    return {
        "tokens": [token["text"] for token in tokens],
        "token_logprobs": [token["log_prob"] for token in tokens],
        "top_logprobs": None,
        "text_offset": offsets,
    }


def _ranked(document: "ExportedDocument") -> list[dict[str, Any]]:
    """The candidates of a query, best first; as many as the request asks for."""
    body = read_fields(document.fields).get("body", {})
    given = orjson.loads(document.text or "{}").get("candidates", [])
    index_of = {candidate["id"]: index for index, candidate in enumerate(given)}
    found = orjson.loads(document.result["candidates"])
    top_n = plain(body.get("top_n")) or len(found)
    ranked = []
    for candidate in found[:top_n]:
        index = index_of[candidate["id"]]
        shown: dict[str, Any] = {"index": index}
        if body.get("return_documents") is not False:
            shown["document"] = {"text": given[index]["text"]}
        shown["relevance_score"] = candidate["score"]
        ranked.append(shown | ({"error": candidate["error"]} if "error" in candidate else {}))
    return ranked
