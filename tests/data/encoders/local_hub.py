"""A hub of models on this machine: the part of Hugging Face's interface that is used, with repositories made here."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class LocalHub(ThreadingHTTPServer):
    """Serves folders as repositories: small files with the number of git, graphs and weights with their SHA-256.

    `cut_after` lists how many bytes are sent before the line is cut, download by download; `damaged` names a file that
    is sent with another last byte than was announced.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Path] = {}
        self.cut_after: list[int] = []
        self.damaged = ""
        self.asked: list[tuple[str, str | None]] = []  # the paths asked for, and the ranges

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def describe(self, repository: str) -> dict[str, Any]:
        root = self.repositories[repository]
        files = [path for path in sorted(root.rglob("*")) if path.is_file()]
        siblings = [_describe_file(path.relative_to(root).as_posix(), path.read_bytes()) for path in files]
        return {"id": repository, "sha": COMMIT, "siblings": siblings}


def _describe_file(name: str, content: bytes) -> dict[str, Any]:
    blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()
    entry: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": blob}
    if name.endswith((".onnx", ".safetensors", ".bin")):
        entry["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return entry


class _Handler(BaseHTTPRequestHandler):
    server: LocalHub

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.asked.append((path, self.headers["Range"]))
        for repository, root in self.server.repositories.items():
            if path == f"/api/models/{repository}/revision/main":
                return self.answer(json.dumps(self.server.describe(repository)).encode())
            start = f"/{repository}/resolve/{COMMIT}/"
            if path.startswith(start) and (root / path.removeprefix(start)).is_file():
                return self.send_file(path, (root / path.removeprefix(start)).read_bytes())
        return self.send_error(404)

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_file(self, path: str, content: bytes) -> None:
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        if self.server.damaged and path.endswith(self.server.damaged):
            content = content[:-1] + bytes([content[-1] ^ 1])
        wanted = self.headers["Range"]
        first = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - first))
        self.send_header("ETag", etag)
        self.end_headers()
        body = content[first:]
        is_large = len(content) > 400
        self.wfile.write(body[: self.server.cut_after.pop(0)] if is_large and self.server.cut_after else body)


@contextmanager
def local_hub() -> Iterator[LocalHub]:
    with LocalHub() as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield hub
        hub.shutdown()
        thread.join()
