"""A web server on this machine that serves files from memory, and can fail on demand."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass
class FileServer:
    """Its files by path, its requests so far, and how it fails."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str | None, str | None]] = field(default_factory=list)  # path, range, authorization
    redirects: dict[str, str] = field(default_factory=dict)  # from a path to a URL
    status: int = 0  # of every answer; 0: what is right
    cuts: int = 0  # how many of the next answers end in the middle
    cut_after: int = 0  # bytes
    knows_ranges: bool = True
    names_versions: bool = True  # by an ETag
    says_length: bool = True
    replaces: bytes = b""  # what every file holds once an answer was cut off


@contextmanager
def file_server() -> Iterator[FileServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    served = FileServer(f"http://127.0.0.1:{server.server_port}")
    server.served = served  # type: ignore[attr-defined]  # the handler's way to reach it
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def served(self) -> FileServer:
        return self.server.served  # type: ignore[attr-defined,no-any-return]  # see above

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        served, path = self.served, urlsplit(self.path).path
        served.requests.append((self.path, self.headers.get("Range"), self.headers.get("Authorization")))
        if served.status:
            return self._answer(served.status, b"", {})
        if path in served.redirects:
            return self._answer(302, b"", {"Location": served.redirects[path]})
        if path not in served.files:
            return self._answer(404, b"", {})
        content, tag = served.files[path], f'"{hash(served.files[path])}"'
        headers = {"ETag": tag} if served.names_versions else {}
        wanted = self.headers.get("Range")
        if wanted and served.knows_ranges and self.headers.get("If-Range") == tag:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            return self._answer(206, content[start:], headers)
        return self._answer(200, content, headers)

    def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        served = self.served
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if served.says_length:
            self.send_header("Content-Length", str(len(content)))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        if served.cuts and status in (200, 206):
            served.cuts -= 1
            self.wfile.write(content[: served.cut_after])
            self.close_connection = True
            if served.replaces:
                served.files = dict.fromkeys(served.files, served.replaces)
            return
        self.wfile.write(content)
        self.close_connection = not served.says_length
