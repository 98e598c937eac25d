"""Files on the web, read once and in order. A connection that breaks is resumed by a range request, which the server
answers with a range only if the file is still the same (`If-Range`).

Redirects are followed to https alone, and from this machine to itself.

Knows: HTTP. Does not know: files.
"""

import logging
import netrc
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

from jobs.addresses.address import Address, is_hidden, is_loopback
from jobs.addresses.filesystem import CHANGED, CREDENTIALS, PAUSES_S
from jobs.errors import CorpusError

if TYPE_CHECKING:
    import httpx2

PROGRESS_BYTES = 1 << 20  # after which the attempts are counted anew
TIMEOUT_S = 30.0  # without a byte
MAX_REDIRECTS = 5
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
_RANGE = re.compile(r"bytes (?P<start>[0-9]+)-[0-9]+/(?P<whole>[0-9]+|\*)")


def url_pieces(address: Address) -> Iterator[tuple[int, bytes]]:
    """The bytes of the file, each piece with its position. Where the server cannot go on in the middle, they begin
    again at 0. Raises CorpusError."""
    import httpx2

    for name in ("httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)  # it would log the URL of each request
    reading, failures = _Reading(address), 0
    with httpx2.Client(timeout=TIMEOUT_S) as client:
        while True:
            before = reading.position
            try:
                yield from reading.pieces(client)
                return
            except httpx2.InvalidURL:
                raise CorpusError(f"{address}: this is not an address; write it as in https://host/file") from None
            except (httpx2.TransportError, _BusyError) as error:
                failures = 1 if reading.position - before >= PROGRESS_BYTES else failures + 1
                if failures > len(PAUSES_S):
                    said = str(error) if isinstance(error, _BusyError) else type(error).__name__
                    raise CorpusError(
                        f"{address}: the server cannot be reached or does not answer ({said}); check the network, and "
                        "try again"
                    ) from None
                time.sleep(PAUSES_S[failures - 1])


class _BusyError(Exception):
    """The server may answer later."""


class _Reading:
    """How far a file is read, and which content it is."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.position = 0
        self._num_bytes: int | None = None
        self._validator = ""  # a strong ETag or the time of the last change

    def pieces(self, client: "httpx2.Client") -> Iterator[tuple[int, bytes]]:
        """The bytes from `position` on."""
        if not self._validator:
            self.position = 0
        headers = {"Accept-Encoding": "identity"}
        if self.position:
            headers |= {"Range": f"bytes={self.position}-", "If-Range": self._validator}
        with _response(client, self._address, headers) as response:
            self._check(response)
            for piece in response.iter_raw():
                yield self.position, piece
                self.position += len(piece)

    def _check(self, response: "httpx2.Response") -> None:
        """Raise CorpusError unless the answer has the bytes from `position` on, of the same content."""
        validator = _validator(response)
        if self.position:
            found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
            is_rest = response.status_code == 206 and found is not None and int(found["start"]) == self.position
            if validator != self._validator or not (is_rest or response.status_code == 200):
                raise self._error(CHANGED)
            if not is_rest:  # the server knows no ranges
                self.position = 0
            return
        self._validator = validator
        ends = "Content-Length" in response.headers or "chunked" in response.headers.get("Transfer-Encoding", "")
        if not ends and response.http_version != "HTTP/2":
            raise self._error("the server does not say where the file ends; fetch it with another program first")

    def _error(self, why: str) -> CorpusError:
        return CorpusError(f"{self._address}: {why}")


def _validator(response: "httpx2.Response") -> str:
    tag: str = response.headers.get("ETag", "")
    return tag if tag.startswith('"') else response.headers.get("Last-Modified", "")


@contextmanager
def _response(client: "httpx2.Client", address: Address, headers: Mapping[str, str]) -> "Iterator[httpx2.Response]":
    """The answer that has the file, behind redirects."""
    here = address
    for _ in range(MAX_REDIRECTS + 1):
        with client.stream("GET", here.url, headers=headers, auth=_login(here)) as response:
            if not response.has_redirect_location:
                _check_status(response, address)
                yield response
                return
            here = _redirected(here, response.headers["Location"], address)
    raise CorpusError(f"{address}: the server sends from one address to the next; name the last one")


def _redirected(here: Address, location: str, address: Address) -> Address:
    url = urljoin(here.url, location)
    try:
        scheme, host = urlsplit(url).scheme, urlsplit(url).hostname or ""
    except ValueError:
        scheme = host = ""
    if not host or not (scheme == "https" or (scheme == here.scheme == "http" and is_loopback(host))):
        raise CorpusError(f"{address}: the server sends to another address, which is not read: it is not https")
    return Address(scheme, url.partition("://")[2])


def _login(address: Address) -> tuple[str, str] | None:
    """The user and the password of the address, else those that ~/.netrc has for its host, as for curl and git."""
    parts = urlsplit(address.url)
    if parts.username is not None:
        return unquote(parts.username), unquote(parts.password or "")
    try:
        found = netrc.netrc().hosts.get(parts.hostname or "")
    except (OSError, netrc.NetrcParseError):
        return None
    return (found[0], found[2] or "") if found else None


def _check_status(response: "httpx2.Response", address: Address) -> None:
    status = response.status_code
    if status in (200, 206):
        return
    if status in BUSY:
        raise _BusyError(f"HTTP {status}")
    why = f"the server refuses it (HTTP {status}); check the address"
    if status in (401, 403):
        expired = ", or has expired: a signed address is valid for a while" if is_hidden(str(address)) else ""
        why = f"access is denied (HTTP {status}){expired}; give {CREDENTIALS['https']}"
    elif status in (404, 410):
        why = f"there is no such file (HTTP {status}); check the address"
    elif status in (412, 416):
        why = CHANGED
    raise CorpusError(f"{address}: {why}")
