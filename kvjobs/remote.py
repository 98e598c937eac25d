"""The jobs of a server: `kvjobs web`, asked over HTTP (docs/http.md)."""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlsplit

import httpx2
import orjson

from jobs.addresses.address import is_address, without_secrets
from jobs.errors import (
    CorpusError,
    KeyTaken,
    KvjobsError,
    LimitReached,
    ModelError,
    NotAllowedError,
    NotFoundError,
    SpecError,
    TransientError,
)
from kvjobs.backend import Submitted, Values
from kvjobs.files import packed
from kvjobs.lines import lines_of
from kvjobs.rows import Rows

ERRORS: Mapping[str, type[KvjobsError]] = {
    error.code: error
    for error in (
        SpecError,
        CorpusError,
        KeyTaken,
        NotAllowedError,
        LimitReached,
        ModelError,
        NotFoundError,
        TransientError,
    )
}
CHUNK = 1 << 16  # bytes of an upload that are sent at a time
CONNECT_S, READ_S = 10.0, 60.0
ATTEMPTS, FIRST_PAUSE_S = 4, 0.2  # of a request that may be sent again; the pause doubles
LONGEST_TYPES = 8_000  # characters of `field_types` in an address


class RemoteJobs:
    """Jobs of a server. Requests that change nothing, or the same thing again, are sent again where a connection
    breaks; an upload is not: it raises TransientError, and the same submit again finds the job if it was made."""

    def __init__(self, address: str, token: str | None) -> None:
        parts = urlsplit(address)
        if not parts.hostname or parts.username or parts.query:
            raise SpecError("the address of a server is https://HOST:PORT; a token is given as token=...")
        self.where = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
        self.spool = Path(tempfile.gettempdir())
        self.shortest_poll_s = 0.05
        headers = {"authorization": f"Bearer {token}"} if token else {}
        timeout = httpx2.Timeout(READ_S, connect=CONNECT_S)
        self._http = httpx2.Client(base_url=self.where, headers=headers, timeout=timeout, follow_redirects=False)

    def submit(self, rows: Rows, options: Values) -> Submitted:
        return self._submitted(self._upload("/api/jobs", rows, options))

    def dry_run(self, rows: Rows, options: Values) -> dict[str, Any]:
        return self._upload("/api/dry-run", rows, options)

    def open_job(self, options: Values) -> Submitted:
        parameters = [("open", "true"), *_query(options)]
        return self._submitted(self._json("POST", "/api/jobs", params=parameters, headers=_keyed(options)))

    def append(self, job_id: int, documents: Sequence[Values]) -> list[dict[str, Any]]:
        body = b"".join(orjson.dumps(document) + b"\n" for document in documents)
        headers = {"content-type": "application/x-ndjson"}
        answer = self._again("POST", f"/api/jobs/{job_id}/documents", content=body, headers=headers)
        found: list[dict[str, Any]] = answer["documents"]
        return found

    def outcomes(self, job_id: int, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        answer = self._again("POST", f"/api/jobs/{job_id}/outcomes", json={"ids": [*ids]})
        return {name: record for name, record in answer["outcomes"].items() if record is not None}

    def ended_documents(self, job_id: int) -> Iterator[bytes]:
        yield from lines_of(self._stream(f"/api/jobs/{job_id}/results", {"format": "jsonl", "follow": "true"}))

    def job(self, reference: str) -> dict[str, Any]:
        return self._again("GET", f"/api/jobs/{quote(reference, safe='')}")

    def jobs(self, states: Sequence[str], limit: int) -> list[dict[str, Any]]:
        parameters: list[tuple[str, Any]] = [("limit", limit), *(("state", state) for state in states)]
        found: list[dict[str, Any]] = self._again("GET", "/api/jobs", params=parameters)["jobs"]
        return found

    def act(self, job_id: int, action: str, *, reason: str | None, priority: int | None) -> dict[str, Any]:
        body = {"reason": reason, "priority": priority}
        found: dict[str, Any] = self._json("POST", f"/api/jobs/{job_id}/actions/{action}", json=body)["job"]
        return found

    def results(self, job_id: int, options: Values) -> Iterator[bytes]:
        extras = {"with": options["extras"]} if "extras" in options else {}
        asked = {name: value for name, value in options.items() if name != "extras"} | extras
        return self._stream(f"/api/jobs/{job_id}/results", _query(asked))

    def files(self, job_id: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after: dict[str, int] = {}
        while True:
            answer = self._again("GET", f"/api/jobs/{job_id}/files", params=after)
            found += answer["files"]
            if answer["next"] is None:
                return found
            after = {"after": answer["next"]}

    def models(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._again("GET", "/api/models")["models"]
        return found

    def may_have_ended(self, job_id: int) -> bool:
        return True

    def see_to_worker(self, job_id: int) -> str:
        return ""

    def close(self) -> None:
        self._http.close()

    def _upload(self, path: str, rows: Rows, options: Values) -> dict[str, Any]:
        """Send a corpus, piece by piece, and read the answer, which may take as long as the server reads."""
        options = {**options, **({"format": rows.format.value} if rows.format else {})}
        parameters = _query(options)
        if rows.field_types and len(types := json.dumps(rows.field_types)) <= LONGEST_TYPES:
            parameters.append(("field_types", types))
        with _opened(rows, options.get("format"), self.spool) as (file, name):
            if name:
                parameters.append(("filename", name))
            pieces = iter(lambda: file.read(CHUNK), b"")
            timeout = httpx2.Timeout(None, connect=CONNECT_S)
            headers = {**_keyed(options), "content-type": "application/octet-stream"}
            return self._json("POST", path, params=parameters, content=pieces, headers=headers, timeout=timeout)

    def _submitted(self, answer: dict[str, Any]) -> Submitted:
        return Submitted(answer["job"], answer["prior_state"], answer["notes"])

    def _again(self, method: str, path: str, **how: Any) -> dict[str, Any]:
        """As `_json`, several times where the server does not answer: for requests that may arrive twice."""
        for attempt in range(ATTEMPTS):
            try:
                return self._json(method, path, **how)
            except TransientError:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(FIRST_PAUSE_S * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _json(self, method: str, path: str, **how: Any) -> dict[str, Any]:
        with self._translated():
            answer = self._http.request(method, path, **how)
            self._check(answer)
            found: dict[str, Any] = answer.json()
            return found

    def _stream(self, path: str, parameters: Any) -> Iterator[bytes]:
        with self._translated(), self._http.stream("GET", path, params=parameters) as answer:
            if answer.status_code >= 300:
                answer.read()
            self._check(answer)
            yield from answer.iter_bytes()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except httpx2.HTTPError as error:
            raise TransientError(f"{self.where} does not answer: {error or type(error).__name__}") from None

    def _check(self, answer: httpx2.Response) -> None:
        """Raise the error of kvjobs that an answer tells of."""
        if answer.status_code < 300:
            return
        try:
            error = answer.json()["error"]
            kind, message = ERRORS.get(error["code"]), str(error["message"])
        except (ValueError, KeyError, TypeError):
            kind, message = None, f"{self.where} answers {answer.status_code}: {answer.text[:200].strip()}"
        if kind is None and answer.status_code in (401, 403):
            kind = NotAllowedError
        if kind is None and answer.status_code in (429, 502, 503, 504):
            kind = TransientError
        if kind is None:
            kind = SpecError if answer.status_code < 500 else KvjobsError
        raise kind(message)


def _query(options: Values) -> list[tuple[str, str]]:
    """The options as parameters of an address, but for the key, which is a header."""
    found = []
    for name, value in options.items():
        if name == "key":
            continue
        for item in value if isinstance(value, list | tuple) else (value,):
            found.append((name, item if isinstance(item, str) else json.dumps(item, default=str)))
    return found


def _keyed(options: Values) -> dict[str, str]:
    return {"idempotency-key": str(options["key"])} if "key" in options else {}


@contextmanager
def _opened(rows: Rows, form: str | None, spool: Path) -> Iterator[tuple[IO[bytes], str]]:
    """The bytes that are sent, and what they are called, which says their format; empty where the options say it."""
    if rows.stream is not None:
        yield rows.stream, ""
        return
    if is_address(rows.path):
        raise SpecError(f"{without_secrets(rows.path)} is read where kvjobs runs; submit it there, or send rows")
    with packed(rows.path, form, spool) as files:
        if files is not None:
            yield files.content, files.name
            return
        try:
            file = open(rows.path, "rb")  # noqa: SIM115  # closed below: this `try` is for the opening alone
        except OSError as error:
            raise CorpusError(f"{rows.path}: {error.strerror}") from None
        with file:
            yield file, os.path.basename(rows.path)
