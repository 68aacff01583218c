"""A web server on this machine that serves one file, as badly as it is told to."""

import hashlib
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from understudy.data.datasets import DATASETS
from understudy.data.datasets.source import Remote

CONTENT = np.random.default_rng(0).bytes(3_000_000)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.etag: str | None = '"first"'
        self.modified: str | None = None
        self.ranges = True
        self.sends_length = True
        self.misplaced: list[int] = []  # where it starts instead of where it was asked to
        self.cut_after: list[int] = []  # bytes sent before the line is cut, request by request
        self.answers: list[int] = []  # statuses given before it serves anything
        self.pause = 0.0
        self.asked: list[str | None] = []  # the ranges asked for
        self.sent = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/file.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers["Range"]
        server.asked.append(wanted)
        if server.answers:
            return self.send_error(server.answers.pop(0))
        start = 0
        strong = server.etag if server.etag and not server.etag.startswith("W/") else None
        if wanted and server.ranges and self.headers["If-Range"] in (strong, server.modified):
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])  # type: ignore[index]
            if start >= len(server.content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(server.content)}")
                self.send_header("Content-Length", "0")
                return self.end_headers()
            start = server.misplaced.pop(0) if server.misplaced else start
        body = server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(server.content) - 1}/{len(server.content)}")
        if server.sends_length:
            self.send_header("Content-Length", str(len(body)))
        for name, value in (("ETag", server.etag), ("Last-Modified", server.modified)):
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.send(body)
        return None

    def send(self, body: bytes) -> None:
        end = self.server.cut_after.pop(0) if self.server.cut_after else len(body)
        for i in range(0, min(end, len(body)), 50_000):
            piece = body[i : min(i + 50_000, end)]
            try:
                self.wfile.write(piece)
            except ConnectionError:
                return
            self.server.sent += len(piece)
            time.sleep(self.server.pause)


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def only_our_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty place for downloads, and no system's data sets."""
    monkeypatch.setenv("UNDERSTUDY_HOME", str(home))
    monkeypatch.delenv("UNDERSTUDY_DATA", raising=False)
    for name, source in DATASETS.items():
        monkeypatch.setitem(DATASETS, name, replace(source, also_in=()))


def offer(server: Server, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes) -> None:
    """Let the local server play the official one."""
    file = DATASETS[name].files[0]
    server.content = content
    checksum = "md5:" + hashlib.md5(content, usedforsecurity=False).hexdigest()
    monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], files=(Remote(file.name, server.url, checksum),)))
