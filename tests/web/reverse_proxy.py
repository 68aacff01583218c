"""A small reverse proxy, as nginx and Caddy are large ones: it passes calls on with or without a prefix."""

import http.client
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from understudy.web.certificates import Certificate

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer"}


@contextmanager
def reverse_proxy(
    target: str,
    prefix: str,
    *,
    strips: bool,
    keeps_host: bool = True,
    certificate: Certificate | None = None,
    client: str | None = None,
) -> Iterator[str]:
    """The address of a proxy that passes calls under `prefix` on to `target`. `client`: what it says who called."""
    upstream = urlsplit(target)

    class Passing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            if not (self.path == prefix or self.path.startswith(f"{prefix}/")):
                self.send_error(404)
                return
            if strips and self.path == prefix:  # nginx leads there by itself
                self.send_response(301)
                self.send_header("Location", f"{prefix}/")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            sent = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
            if not keeps_host:
                sent["Host"] = upstream.netloc
            sent["X-Forwarded-Proto"] = "http" if certificate is None else "https"
            before = sent.get("X-Forwarded-For")
            sent["X-Forwarded-For"] = ", ".join(filter(None, [before, client or self.client_address[0]]))
            path = self.path[len(prefix) :] if strips else self.path
            line = http.client.HTTPConnection(upstream.hostname or "", upstream.port)
            # Either side may go away: then so does the other, and nothing is left open.
            with suppress(OSError, http.client.HTTPException), closing(line):
                line.request(self.command, path, body or None, sent)
                with closing(line.getresponse()) as answer:
                    self.hand_back(answer)
            self.close_connection = True

        def hand_back(self, answer: http.client.HTTPResponse) -> None:
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP_BY_HOP | {"date"}:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while part := answer.read1(65536):
                self.wfile.write(part)
                self.wfile.flush()

        do_GET = do_POST = pass_on  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Passing)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.certfile, certificate.keyfile)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
