"""How a server is reached."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccess:
    """The address of a server, its key, and what it is given. The key is never shown."""

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
