"""A program: a chat server that translates the documents of a trial as an undisturbed run did, to be killed.

    python -m tests.faults.chat_server PORT ANSWERS DELAY_S LOG

ANSWERS is a JSON object, the translation by text. A line of LOG is the text of one answered request: what the caller
of a paid server would pay for. It stands in for a server of OpenAI's chat API (POST /v1/chat/completions).
"""

import contextlib
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class _Server(ThreadingHTTPServer):
    allow_reuse_address = True  # the next one starts while connections of the killed one linger
    request_queue_size = 64
    daemon_threads = True
    answers: dict[str, str]
    delay_s: float
    log: Path


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._send(200, {"object": "list", "data": [{"id": "translator", "object": "model"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = asked["messages"][-1]["content"]
        # The longest: a document may be part of another.
        text = max((text for text in self.server.answers if text in prompt), key=len, default=None)
        time.sleep(self.server.delay_s)
        answer = self.server.answers.get(text, "?") if text else "?"
        with self.server.log.open("a") as log:
            log.write(json.dumps(text) + "\n")
        self._send(
            200,
            {
                "id": "chat-1",
                "object": "chat.completion",
                "model": asked["model"],
                "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer}}],
                "usage": {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30},
            },
        )

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # a client that was killed
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _send(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    """Serve until killed."""
    port, answers, delay_s, log = sys.argv[1:]
    server = _Server(("127.0.0.1", int(port)), _Handler)
    server.answers = json.loads(Path(answers).read_text(encoding="utf-8"))
    server.delay_s = float(delay_s)
    server.log = Path(log)
    server.serve_forever()


if __name__ == "__main__":
    main()
