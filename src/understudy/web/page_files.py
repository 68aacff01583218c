"""The files of the built page: they hold nothing of any project, so they need no token.

They are listed when the server starts and found by their address alone. No path is ever made of what a client sends.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.responses import Response

STATIC: Final = Path(__file__).parent / "static"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
}
HASHED: Final = re.compile(r"-[\w-]{8,}\.\w+$")  # a name with the hash of its content never changes its meaning
FOR_EVER: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class PageFile:
    content: bytes
    media_type: str
    cache: str


def page_files(folder: Path = STATIC) -> dict[str, PageFile]:
    """The page's files by their address; the page itself is at `/`."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in TYPES and not path.is_symlink():
            address = f"/{path.relative_to(folder).as_posix()}"
            cache = FOR_EVER if HASHED.search(path.name) else "no-cache"
            found["/" if address == "/index.html" else address] = PageFile(path.read_bytes(), TYPES[path.suffix], cache)
    found.setdefault("/", PageFile(b"The page is not built; run make page.\n", "text/plain; charset=utf-8", "no-cache"))
    return found


def serve_file(file: PageFile) -> Response:
    return Response(file.content, media_type=file.media_type, headers={"Cache-Control": file.cache})
