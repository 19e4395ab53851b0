"""An OpenAI-compatible server on this machine that knows the answers, and fails as real ones do."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from hopscope.problem.text.questions import Question

SILENCE = 6.0
"""Seconds; clients that wait less must ask again."""

FAULTS = ("429", "500", "garbage", "truncation", "silence", "empty", "echo")


class Server:
    """Answers questions; every `every`-th call fails in one of the ways, in turn.

    Attributes:
        served: good replies by prompt.
        faults: failures by kind.
        calls: calls of any kind.
        refuse: a status that every call gets, if one is set; refusals: how many got it.
        long: characters that every reply ends with; tokens: that a reply is said to have; finish: why it ended.
        when: what to do at which good reply.
        stuck: prompts that always get the same unacceptable reply.
    """

    def __init__(
        self, questions: list[Question], every: int = 0, delay: float = 0.0, reasoning: int = 0, direct: bool = False
    ) -> None:
        self.answers = {question.prompt: question for question in questions}
        self.every, self.delay, self.reasoning, self.direct = every, delay, reasoning, direct
        self.served, self.faults = Counter[str](), Counter[str]()
        self.calls = self.long = self.refusals = 0
        self.refuse: int | None = None
        self.tokens, self.finish = 2, "stop"
        self.when: tuple[int, Callable[[], None]] | None = None
        self.stuck: set[str] = set()
        self.lock = threading.Lock()
        self.url = ""

    def fault(self) -> str | None:
        with self.lock:
            self.calls += 1
            if not self.every or self.calls % self.every:
                return None
            kind = FAULTS[(self.calls // self.every - 1) % len(FAULTS)]
            self.faults[kind] += 1
            return kind

    def reply(self, prompt: str) -> str:
        """First an unacceptable text, then the answer: two attempts a question."""
        with self.lock:
            self.served[prompt] += 1
            first = prompt in self.stuck or (self.served[prompt] % 2 == 1 and not self.direct)
            if self.when is not None and sum(self.served.values()) == self.when[0]:
                self.when[1]()
        return "I would say it is clear." if first else self.answers[prompt].answer


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def send(self, status: int, body: bytes, length: int | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body) if length is None else length))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            key = self.headers.get("Authorization", "")
            if server.refuse is not None:
                server.refusals += 1
                self.send(server.refuse, json.dumps({"error": {"message": f"bad key {key}", "code": "no"}}).encode())
                return
            time.sleep(server.delay)
            match server.fault():
                case "429":
                    self.send(429, json.dumps({"error": {"message": "slow down", "type": "rate"}}).encode())
                case "500":
                    self.send(500, b'{"error": {"message": "oops"}}')
                case "garbage":
                    self.send(200, b"\x00<html>not json")
                case "truncation":
                    self.send(200, b'{"id": "x", "choi', length=4000)
                    self.close_connection = True
                case "silence":
                    time.sleep(SILENCE)
                    self.close_connection = True
                case "empty":
                    self.send(200, b'{"id": "x", "object": "chat.completion", "choices": []}')
                case "echo":
                    self.send(500, json.dumps({"error": {"message": f"your key is {key}"}}).encode())
                case _:
                    self.send(200, json.dumps(completion(request, server)).encode())

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *_: Any) -> None:
            """Clients that hang up are part of the exercise."""

    http = Quiet(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_port}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def completion(request: dict[str, Any], server: Server) -> dict[str, Any]:
    prompt = request["messages"][0]["content"]
    body: dict[str, Any] = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [{"index": 0, "finish_reason": server.finish, "message": {"role": "assistant", "content": "."}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": server.tokens, "total_tokens": 12},
    }
    if server.reasoning:
        body["usage"]["completion_tokens_details"] = {"reasoning_tokens": server.reasoning}
    body["choices"][0]["message"]["content"] = server.reply(prompt) + "x" * server.long
    return body
