"""A local server in place of the Hugging Face hub: it serves repositories at the same paths, and can fail on demand.

/api/models/ID[/revision/REV]          the files of a repository
/api/models/ID/tree/REV                the same, in the form that huggingface_hub 2 requests
/api/datasets/ID..., /datasets/ID/...  likewise, of datasets; .../tree/REV/FOLDER is what lies in a folder
/ID/resolve/REV/FILE                   a small file itself; for a large one (Git LFS) a redirect
/storage/SHA256                        large files, also with a Range
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

LARGE = (".safetensors", ".bin", ".spm", ".onnx", ".data", ".onnx_data")  # kept in Git LFS, as the hub does
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Request:
    """A request that the server received."""

    method: str
    path: str
    range: str | None
    token: str | None
    user_agent: str


@dataclass
class Misbehaviour:
    """The failures that the server simulates."""

    cut_after: int | None = None  # end the connection after this number of bytes of a large file
    cuts: int = 0  # how many times
    refuses: tuple[int, str] | None = None  # status and X-Error-Code of every answer
    damages: str | None = None  # the file that is sent with other bytes than announced


@dataclass
class FakeHub:
    """The repositories by id, the simulated failures, and the requests so far."""

    endpoint: str
    repositories: dict[str, Path]
    wrong: Misbehaviour = field(default_factory=Misbehaviour)
    requests: list[Request] = field(default_factory=list)

    def fetched(self, file: Path) -> list[str | None]:
        """The ranges in which a large file was requested; None is the whole file."""
        address = f"/storage/{_sha256(file)}"
        return [request.range for request in self.requests if request.path == address and request.method == "GET"]


@contextmanager
def fake_hub(repositories: dict[str, Path]) -> Iterator[FakeHub]:
    """Serve these folders, each as the one commit of a repository, whose branch is `main`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    hub = FakeHub(f"http://127.0.0.1:{server.server_port}", repositories)
    server.hub = hub  # type: ignore[attr-defined]  # the handler's way to reach it
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def hub(self) -> FakeHub:
        return self.server.hub  # type: ignore[attr-defined,no-any-return]  # see above

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        token = self.headers.get("Authorization")
        agent = self.headers.get("User-Agent", "")
        self.hub.requests.append(Request(self.command, path, self.headers.get("Range"), token, agent))
        if self.hub.wrong.refuses and not path.startswith("/storage/"):
            self._refuse(*self.hub.wrong.refuses)
        elif path.startswith("/storage/"):
            self._send_large(path.removeprefix("/storage/"))
        elif path.startswith(("/api/models/", "/api/datasets/")):
            self._describe(*path.split("/", 3)[2:])
        else:
            self._resolve(path[1:].removeprefix("datasets/"))

    def _describe(self, repository_kind: str, path: str) -> None:
        name, kind, revision = path, "", ""
        for word in ("/revision/", "/tree/"):
            if word in path:
                name, kind, revision = path.partition(word)
        revision, _, below = revision.partition("/")
        folder = self.hub.repositories.get(name)
        if folder is None:
            self._refuse(404, "RepoNotFound")
        elif revision not in ("", "main", COMMIT):
            self._refuse(404, "RevisionNotFound")
        elif kind == "/tree/":
            recursive = "recursive=true" in self.path.lower() or repository_kind == "models"
            here = [file for file in _files(folder / below) if recursive or file.parent == folder / below]
            folders = [] if recursive else [path for path in (folder / below).iterdir() if path.is_dir()]
            entries = [{"type": "directory", "path": str(path.relative_to(folder)), "oid": ""} for path in folders]
            self._send_json(entries + [_entry(file, folder) for file in here])
        else:
            siblings = [_sibling(file, folder) for file in _files(folder)]
            self._send_json({"_id": "1", "id": name, "modelId": name, "sha": COMMIT, "siblings": siblings})

    def _resolve(self, path: str) -> None:
        name, _, rest = path.partition("/resolve/")
        revision, _, file_name = rest.partition("/")
        folder = self.hub.repositories.get(name)
        if folder is None:
            return self._refuse(404, "RepoNotFound")
        if revision not in ("main", COMMIT):
            return self._refuse(404, "RevisionNotFound")
        file = folder / file_name
        if not file.is_file():
            return self._refuse(404, "EntryNotFound")
        headers = {"X-Repo-Commit": COMMIT}
        if not file.name.endswith(LARGE):
            content, asked = file.read_bytes(), self.headers.get("Range")
            start, stop = map(int, asked.removeprefix("bytes=").split("-")) if asked else (0, len(content))
            return self._send(
                206 if asked else 200, content[start : stop + 1], {**headers, "ETag": f'"{_git_sha1(file)}"'}
            )
        sha256, size = _sha256(file), str(file.stat().st_size)
        headers |= {"X-Linked-Etag": f'"{sha256}"', "X-Linked-Size": size}
        # Redirect to another host, as the real hub does.
        there = f"http://localhost:{self.server.server_port}/storage/{sha256}"  # type: ignore[attr-defined]
        return self._send(302, b"", {**headers, "Location": there})

    def _send_large(self, sha256: str) -> None:
        wrong = self.hub.wrong
        file = next(
            file for folder in self.hub.repositories.values() for file in _files(folder) if _sha256(file) == sha256
        )
        content = file.read_bytes()
        if wrong.damages == file.name:
            content = bytes([content[0] ^ 1]) + content[1:]
        asked = self.headers.get("Range")
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        headers = {"ETag": f'"{sha256}"', "Accept-Ranges": "bytes"}
        if asked:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        cut = wrong.cut_after if wrong.cuts else None
        if cut is None or self.command == "HEAD":
            return self._send(206 if asked else 200, content[start:], headers)
        wrong.cuts -= 1
        self._send(206 if asked else 200, content[start : start + cut], headers, length=len(content) - start)
        self.close_connection = True
        return None

    def _refuse(self, status: int, code: str) -> None:
        # The hub gives the reason in a header, for gated and for missing repositories.
        self._send(status, json.dumps({"error": code}).encode(), {"X-Error-Code": code, "X-Error-Message": code})

    def _send_json(self, content: Any) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, content: bytes, headers: dict[str, str], length: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _sibling(file: Path, folder: Path) -> dict[str, Any]:
    sibling: dict[str, Any] = {
        "rfilename": file.relative_to(folder).as_posix(),
        "size": file.stat().st_size,
        "blobId": _git_sha1(file),
    }
    if file.name.endswith(LARGE):
        sibling["lfs"] = {"sha256": _sha256(file), "size": file.stat().st_size, "pointerSize": 134}
    return sibling


def _entry(file: Path, folder: Path) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": "file",
        "path": file.relative_to(folder).as_posix(),
        "size": file.stat().st_size,
        "oid": _git_sha1(file),
    }
    if file.name.endswith(LARGE):
        entry["lfs"] = {"oid": _sha256(file), "size": file.stat().st_size, "pointerSize": 134}
    return entry


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _git_sha1(file: Path) -> str:
    """The git id of an ordinary file. (For a large file it would be that of its pointer, which no test needs.)"""
    content = file.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
