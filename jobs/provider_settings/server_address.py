"""The address of a server and the key for it, as people and the servers' own clients write them.

No error repeats a value: it may contain a password.
"""

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

from jobs.errors import SpecError

OPENAI_URL = "https://api.openai.com/v1"
OLLAMA_URL = "http://127.0.0.1:11434"
_DEFAULT_PORTS = {"http": 80, "https": 443}  # of ollama's own client, which takes 11434 where no scheme is given
_OLLAMA_PORT = 11434


def openai_url(text: str) -> str:
    """The base URL without a slash at its end, so that `/completions` can follow. Raises SpecError for no URL."""
    text = text.strip()
    parts = _split(text, "http://HOST:PORT/v1")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise SpecError("it is not the URL of a server; write http://HOST:PORT/v1")
    return text.rstrip("/")


def ollama_url(text: str) -> str:
    """The URL of what `OLLAMA_HOST` can hold: a host, a host and port, a port (`:11434`), or a URL.

    As ollama's own client reads it (`_parse_host` of ollama 0.6.3), but with the user and password of a URL, and with
    this machine in place of 0.0.0.0 and [::], which a server listens on and nobody can connect to everywhere. Raises
    SpecError for a port that is not a number.
    """
    text = text.strip()
    scheme, found, rest = text.partition("://")
    if not found:
        scheme, rest = "http", text
    if scheme not in _DEFAULT_PORTS:
        raise SpecError("it is not an address of an Ollama server; write HOST:PORT or http://HOST:PORT")
    parts = _split(f"{scheme}://{rest}", "HOST:PORT or http://HOST:PORT")
    port = parts.port or (_DEFAULT_PORTS[scheme] if found else _OLLAMA_PORT)
    user, has_user, _host = parts.netloc.rpartition("@")
    path = parts.path.strip("/")
    return f"{scheme}://{user}{has_user}{_host_to_connect_to(parts.hostname)}:{port}" + (f"/{path}" if path else "")


def api_key(text: str) -> str:
    """The key without white space around it. Raises SpecError for one that no HTTP header can hold: the error that the
    HTTP client would raise shows it."""
    text = text.strip()
    if not re.fullmatch(r"[\x21-\x7e]*", text):
        raise SpecError("the key contains a space, a control character or one outside ASCII; copy it again")
    return text


def _split(url: str, form: str) -> SplitResult:
    problem = SpecError(f"it is not the address of a server; write {form}")
    if not re.fullmatch(r"[\x21-\x7e]+", url):
        raise problem
    try:
        parts = urlsplit(url)
        _ = parts.port, parts.hostname  # raise ValueError for a port that is not a number, and for an open bracket
    except ValueError:
        raise problem from None
    return parts


def _host_to_connect_to(host: str | None) -> str:
    if not host:
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return str(address) if address.version == 4 else f"[{host}]"
