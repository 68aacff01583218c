"""The public address of the pages: where people find them, whatever stands between them and this server."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from understudy.errors import UsageError

HOST_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
PREFIX: Final = re.compile(r"(/[A-Za-z0-9._~-]+)*")
OWN_FOLDERS: Final = frozenset({"api", "assets", "p"})  # a prefix like them could not be told from our own paths


@dataclass(frozen=True)
class PublicUrl:
    """Where people find the pages: `https://label.example.org/label/`, of which the prefix is `/label`."""

    scheme: str
    netloc: str
    host: str
    prefix: str = ""

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.netloc}"

    def __str__(self) -> str:
        return f"{self.origin}{self.prefix}/"


def parse_public_url(text: str) -> PublicUrl:
    """The parts of a public address, or one line that says what is wrong with it."""
    refusal = UsageError(f"--public-url takes an address like https://label.example.org/label/; got {text!r}")
    try:
        parts = urlsplit(text.strip())
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError as error:
        raise refusal from error
    prefix = parts.path.rstrip("/")
    plain = parts.scheme in ("http", "https") and parts.username is None and not (parts.query or parts.fragment)
    if not plain or not (HOST_NAME.fullmatch(host) or is_address(host)):
        raise refusal
    if not PREFIX.fullmatch(prefix) or {".", ".."} & set(prefix.split("/")):
        raise UsageError(f"the path of --public-url has letters, digits and . _ ~ - only; got {parts.path!r}")
    if prefix.split("/")[1:2] and prefix.split("/")[1] in OWN_FOLDERS:
        raise UsageError(f"--public-url cannot have the path {prefix}, which the page uses itself; take /label, say")
    shown = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}[parts.scheme]
    netloc = shown if port in (None, usual) else f"{shown}:{port}"
    return PublicUrl(parts.scheme, netloc, host, prefix)


def is_address(name: str) -> bool:
    """Whether this is an IP address, not a name."""
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
