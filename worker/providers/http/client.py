"""
Requests to one server: JSON there, JSON back.

    answered            the JSON value
    refused             `RequestRefused`: the server works, and does not accept this request (HTTP 400, 404, 413, 422)
    anything else       `ProviderFailure`, after as many attempts as the access allows

Knows: HTTP. Does not know: which API the server speaks, documents.
"""

import asyncio
import logging
import os
import random
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2
import orjson

from jobs.outcome import StepTiming
from jobs.provider_settings.token_price import TokenPrice
from jobs.providers import Reason, Usage
from jobs.text.formatting import visible
from worker.providers.protocol import ProviderFailure

MAX_BYTES = 1 << 26  # of an answer: 64 MiB
SHOWN = 200  # characters of a server's own message
# HTTP statuses after which another request may be accepted. 501: llama.cpp's server, if started without a feature.
OF_THE_REQUEST = frozenset({400, 404, 405, 413, 414, 415, 422, 501})
OF_ACCESS = frozenset({401, 402, 403, 407})  # 402: the account has no credit; 407: a proxy wants to know who asks
logging.getLogger("httpx2").setLevel(logging.WARNING)  # it would log the URL of each request
logging.getLogger("httpcore2").setLevel(logging.WARNING)
# HTTP statuses after which the same request may succeed. 408, 409 and 425: a time-out, a lock, and a request that came
# too early, after which OpenAI's own client asks again too.
BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0  # of the backoff
LONGEST_WAIT_S = 60.0  # of all pauses of a request; a server that asks for more is given up: the next provider is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccess:
    """The address of a server, its key, and how long and how often a request may be tried. The key is never shown."""

    base_url: str  # without a slash at the end; may hold a user and a password
    key: str = field(default="", repr=False)  # sent as a bearer token; empty: none is sent
    concurrency: int  # requests at a time, of all lanes of this process together
    timeout_s: float  # of one request, from its start to the last byte of the answer
    attempts: int = 3  # of one request, where the server is busy or the connection breaks

    @property
    def host(self) -> str:
        """The server as messages name it: host and port, without a user or a password."""
        parts = urlsplit(self.base_url)
        host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else str(parts.hostname)
        return f"{host}:{parts.port}" if parts.port else host

    def __repr__(self) -> str:
        return f"ServerAccess({self.host})"  # the URL may hold a password


class RequestRefused(Exception):
    """The server does not accept a request; another one may be accepted."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status
        self.message = message  # the server's own, shortened and safe to print


@dataclass(slots=True)
class Exchange:
    """The number, time and tokens of the requests for one document."""

    timings: list[StepTiming] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    retry_after: str | None
    content: bytes


class JsonClient:
    """One server. All methods run in one event loop; the connections are kept open between requests."""

    def __init__(self, access: ServerAccess, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self.access = access
        self._transport = transport  # of tests
        self._client: httpx2.AsyncClient | None = None
        self._slots: asyncio.Semaphore | None = None
        self._rng = random.Random()

    async def post(self, path: str, body: Any, exchange: Exchange) -> Any:
        """Send JSON, and return the JSON of the answer. Raises RequestRefused and ProviderFailure."""
        return self._value(await self._send("POST", path, orjson.dumps(body), exchange))

    async def post_for_events(self, path: str, body: Any, exchange: Exchange) -> list[Any]:
        """Send JSON, and return the JSON of each server-sent event of the answer, until `[DONE]`. Raises as `post`."""
        # A connection is not used again after a stream: llama-cpp-python closes it when the next request arrives.
        reply = await self._send("POST", path, orjson.dumps(body), exchange, {"Connection": "close"})
        events = (line[5:].strip() for line in reply.content.splitlines() if line.startswith(b"data:"))
        until_done = takewhile(lambda event: event != b"[DONE]", events)
        return [self._value(_Reply(reply.status, None, event)) for event in until_done]

    async def get(self, path: str, exchange: Exchange) -> Any:
        """The JSON of an address. Raises RequestRefused and ProviderFailure."""
        return self._value(await self._send("GET", path, None, exchange))

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _send(
        self,
        method: str,
        path: str,
        content: bytes | None,
        exchange: Exchange,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> _Reply:
        """An answer with a status of success."""
        waited_s = 0.0
        for attempt in range(1, self.access.attempts + 1):
            is_last = attempt == self.access.attempts
            wait_s = backoff_s(attempt, self._rng)
            try:
                reply = await self._request(method, path, content, exchange, headers)
            except (httpx2.NetworkError, httpx2.RemoteProtocolError, httpx2.ProxyError) as error:
                if is_last or waited_s + wait_s > LONGEST_WAIT_S or _tls_error(error):
                    raise ProviderFailure(Reason.UNREACHABLE, self._connection_problem(error)) from None
            else:
                if reply.status not in BUSY:
                    return self._checked(reply)
                asked_s = retry_after_s(reply.retry_after)
                wait_s = wait_s if asked_s is None else asked_s
                if is_last or waited_s + wait_s > LONGEST_WAIT_S:
                    raise self._busy(reply, asked_s)
            started = time.perf_counter()
            await asyncio.sleep(wait_s)
            waited_s += wait_s
            exchange.timings.append(StepTiming("wait", 0, 1, 0, 0, time.perf_counter() - started))
        raise AssertionError("the last attempt returns or raises")

    async def _request(
        self, method: str, path: str, content: bytes | None, exchange: Exchange, headers: Mapping[str, str]
    ) -> _Reply:
        """One attempt. Raises ProviderFailure for a time-out, for an answer that is too large, and where nothing can be
        sent at all."""
        if self._client is None or self._slots is None:
            self._client, self._slots = self._connect(), asyncio.Semaphore(self.access.concurrency)
        async with self._slots:
            started = time.perf_counter()
            try:
                async with asyncio.timeout(self.access.timeout_s):
                    url = f"{self.access.base_url}{path}"
                    request = self._client.build_request(method, url, content=content, headers=headers)
                    response = await self._client.send(request, stream=True)
                    try:
                        received = await self._receive(response)
                    finally:
                        await response.aclose()
            except (TimeoutError, httpx2.TimeoutException):
                message = f"{self.access.host} sent no whole answer within {self.access.timeout_s:g} s"
                raise ProviderFailure(Reason.TIMEOUT, message) from None
            except (httpx2.InvalidURL, httpx2.UnsupportedProtocol):
                message = f"{self.access.host} is not an address that can be asked: check its URL in the settings"
                raise ProviderFailure(Reason.UNREACHABLE, message) from None
            except httpx2.LocalProtocolError:  # its message shows the header, which may be the key
                message = (
                    f"a request to {self.access.host} cannot be written: check its URL and its key in the settings"
                )
                raise ProviderFailure(Reason.OPEN_ERROR, message) from None
            exchange.timings.append(StepTiming("request", 0, 1, 0, 0, time.perf_counter() - started))
        return _Reply(response.status_code, response.headers.get("retry-after"), received)

    async def _receive(self, response: httpx2.Response) -> bytes:
        received = bytearray()
        try:
            async for chunk in response.aiter_bytes():
                received += chunk
                if len(received) > MAX_BYTES:
                    raise self._bad(f"an answer of more than {MAX_BYTES >> 20} MiB")
        except httpx2.DecodingError:
            raise self._bad("an answer whose compression is damaged") from None
        return bytes(received)

    def _connect(self) -> httpx2.AsyncClient:
        """Raises ProviderFailure for settings of proxies and certificates in the environment that cannot be used."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.access.key:
            headers["Authorization"] = f"Bearer {self.access.key}"
        most = self.access.concurrency
        try:
            return httpx2.AsyncClient(
                headers=headers,
                timeout=self.access.timeout_s,
                limits=httpx2.Limits(max_connections=most, max_keepalive_connections=most),
                follow_redirects=False,  # a redirect would take the documents, and the key, elsewhere
                transport=self._transport,
            )
        except OSError as error:
            unread = f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read: {_cause(error)}"
            raise ProviderFailure(Reason.OPEN_ERROR, unread) from None
        except (ImportError, ValueError, httpx2.InvalidURL):  # the message may show the URL with its password
            message = (
                "the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names cannot be used: write http://HOST:PORT; "
                "socks5:// needs the package socksio"
            )
            raise ProviderFailure(Reason.OPEN_ERROR, message) from None

    def _checked(self, reply: _Reply) -> _Reply:
        """The reply. Raises the error that its status stands for."""
        host = self.access.host
        if reply.status in OF_ACCESS:
            missing = "" if self.access.key else "; no key is set"
            raise ProviderFailure(
                Reason.NO_ACCESS, f"{host} refuses access (HTTP {reply.status}: {_message_of(reply.content)}){missing}"
            )
        if reply.status in OF_THE_REQUEST:
            raise RequestRefused(reply.status, _message_of(reply.content))
        if reply.status >= 500:
            raise self._busy(reply, None)
        if 300 <= reply.status < 400:
            raise self._bad(f"HTTP {reply.status} instead of an answer; a redirect is not followed")
        if not 200 <= reply.status < 300:
            raise self._bad(f"HTTP {reply.status} instead of an answer: {_message_of(reply.content)}")
        return reply

    def _value(self, reply: _Reply) -> Any:
        """The JSON value. Raises ProviderFailure where there is none, or an error in its place."""
        try:
            value = orjson.loads(reply.content)
        except orjson.JSONDecodeError:
            raise self._bad(f"what is not JSON: {_shown(reply.content)}") from None
        if isinstance(value, dict) and value.get("error"):
            raise self._bad(f"an error in place of an answer: {_message_of(reply.content)}")
        return value

    def _bad(self, what: str) -> ProviderFailure:
        return ProviderFailure(Reason.BAD_ANSWER, f"{self.access.host} sent {what}")

    def _busy(self, reply: _Reply, asked_s: float | None) -> ProviderFailure:
        message = _message_of(reply.content)
        if reply.status == 429:
            asked = "" if asked_s is None else f", and asks to wait for {asked_s:g} s"
            return ProviderFailure(
                Reason.RATE_LIMIT, f"{self.access.host} limits the rate{asked} (HTTP 429: {message})"
            )
        if reply.status == 408:
            return ProviderFailure(Reason.TIMEOUT, f"{self.access.host} gave the request up (HTTP 408: {message})")
        return ProviderFailure(Reason.SERVER_ERROR, f"{self.access.host} failed (HTTP {reply.status}: {message})")

    def _connection_problem(self, error: Exception) -> str:
        if tls := _tls_error(error):
            if "certificate" in tls.lower():
                return f"{self.access.host} has no TLS certificate that is accepted here: {visible(tls)}"
            return f"{self.access.host} does not speak TLS; is its address http:// and not https://? ({visible(tls)})"
        if isinstance(error, httpx2.ProxyError):
            return f"the proxy gives no connection to {self.access.host}: {_cause(error)}"
        if isinstance(error, httpx2.ConnectError):
            return f"there is no connection to {self.access.host}: {_cause(error)}"
        return f"{self.access.host} cut the connection: {_cause(error)}"


def _cause(error: BaseException) -> str:
    """The operating system's message, such as Connection refused, which is clearer than those of the libraries."""
    message = visible(str(error)) or type(error).__name__
    below: BaseException | None = error
    while below is not None:
        several = below.exceptions if isinstance(below, BaseExceptionGroup) else (below,)
        told = (_said(error) for error in several if isinstance(error, OSError) and error.strerror)
        message = next(told, message)
        below = below.__cause__ or below.__context__
    return visible(message)


def _said(error: OSError) -> str:
    """`Connection refused`, where asyncio has a sentence of its own; a negative number is of DNS (gaierror)."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror)


def _tls_error(error: BaseException | None) -> str | None:
    """The TLS error among the causes of an error."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return str(error)
        if "certificate verify failed" in str(error).lower():
            return str(error)
        error = error.__cause__ or error.__context__
    return None


def _message_of(content: bytes) -> str:
    """The server's own message: `error.message`, `error`, `message` or `detail` of its JSON, else the text."""
    try:
        value: Any = orjson.loads(content)
    except orjson.JSONDecodeError:
        return _shown(content)
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and name in value:
            value = value[name]
            break
    if isinstance(value, dict) and "message" in value:
        value = value["message"]
    return shown(value if isinstance(value, str) else orjson.dumps(value).decode())


def _shown(content: bytes) -> str:
    return shown(content[: 16 * SHOWN].decode("utf-8", "replace"))


def shown(text: str) -> str:
    """The text that a server sent, in one line that is short and safe to print."""
    text = " ".join(text[: 4 * SHOWN].split())
    return visible(text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…") or "no text"


def backoff_s(attempt: int, rng: random.Random) -> float:
    """Seconds after attempt number `attempt`, from 1, until the next: twice as long each time, less up to a half by
    chance, so that many workers do not come back at once."""
    return min(FIRST_PAUSE_S * 2.0 ** (attempt - 1), LONGEST_PAUSE_S) * rng.uniform(0.5, 1.0)


def retry_after_s(header: str | None, now: datetime | None = None) -> float | None:
    """The seconds that a Retry-After header asks for, which are a number or a date (RFC 9110, 10.2.3); None for no
    header, and for one that is neither."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.replace(".", "", 1).isdecimal():  # some servers send fractions
        return float(text)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError, TypeError, IndexError):  # of the parser, for a malformed date (Python 3.11)
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())


@dataclass(slots=True)
class UsageCount:
    """The requests that were answered and their tokens, also of answers that are thrown away: they are paid for."""

    provider: str
    price: TokenPrice | None = None  # None: they cost nothing
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Count one answer."""
        self.requests += 1
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens

    def add_up(self, other: Self) -> None:
        """Add the numbers of another count."""
        self.requests += other.requests
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens

    def total(self) -> Usage:
        """The usage that a batch records; its cost is in the currency of the price."""
        cost = self.price.cost(self.prompt_tokens, self.completion_tokens) if self.price else 0.0
        return Usage(self.provider, self.requests, self.prompt_tokens, self.completion_tokens, cost)
