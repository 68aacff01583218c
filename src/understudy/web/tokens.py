"""Tokens of login links and logins, by the name they belong to; the project keeps only their hashes.

A token is 256 random bits, so a plain SHA-256 of it tells nobody anything. A password may be guessed, so of that a
salted scrypt is kept; it is there only to end the logins of a former password.
"""

import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from understudy.data.files import write_atomically
from understudy.errors import NotStored, UnderstudyError

FORMAT: Final = 1
FILE: Final = "tokens.json"
MAX_LOGINS: Final = 1000  # of one project; the oldest end first


class Tokens:
    """The tokens of a project: personal links, and logins by password. Both survive a restart."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.lock = threading.Lock()
        self.hashing = threading.Lock()  # one at a time: each takes 16 MiB and a core
        known = _read(self.path)
        self.cookie: str = known["cookie"]
        self.links: dict[str, str] = known["links"]  # name -> hash
        self.logins: dict[str, str] = known["logins"]  # hash -> name, oldest first
        self.password: str | None = known["password"]

    def links_for(self, names: Sequence[str], *, anew: bool = False) -> dict[str, str | None]:
        """A token for each name; None where one was given before, which still works unless `anew`."""
        made: dict[str, str | None] = dict.fromkeys(names)
        with self.lock:
            before = self.links
            for name in names:
                if anew or name not in self.links:
                    token = made[name] = secrets.token_urlsafe(32)
                    self.links = {**self.links, name: _hash(token)}
            try:
                self.store()
            except NotStored:
                self.links = before
                raise
        return made

    def set_password(self, password: str) -> None:
        """Set the password. Logins by another one end."""
        if self.password is not None and _is_password(password, self.password):
            return
        self.password, self.logins = _salt(password), {}
        self.store()

    def login(self, name: str, password: str, *, check: Callable[[], None] = lambda: None) -> str | None:
        """A new token bound to the name, or None if this is not the password.

        `check` is called when the password is known to be right: what it says of names is for those who have it.
        """
        with self.hashing:
            if self.password is None or not _is_password(password, self.password):
                return None
        token = secrets.token_urlsafe(32)
        with self.lock:
            check()
            kept = list(self.logins.items())[-(MAX_LOGINS - 1) :]
            before, self.logins = self.logins, dict(kept) | {_hash(token): name}
            try:
                self.store()
            except NotStored:
                self.logins = before
                raise
        return token

    def logout(self, token: str) -> None:
        """End this login; a personal link goes on working."""
        with self.lock:
            if self.logins.pop(_hash(token), None) is not None:
                self.store()

    def owner_of_link(self, token: str, names: Sequence[str]) -> str | None:
        """Whose link this is, among the names that count now."""
        given, found = _hash(token), None
        for name in names:  # all of them, so that the time says nothing
            if hmac.compare_digest(given, self.links.get(name, "")):
                found = name
        return found

    def owner_of_login(self, token: str) -> str | None:
        """Whose login this is. What is looked up is a hash, so the time it takes reveals nothing useful."""
        return self.logins.get(_hash(token))

    def store(self) -> None:
        """Write the file, which only its owner may read."""
        content = {"format": FORMAT, "cookie": self.cookie, "links": self.links, "logins": self.logins}
        text = json.dumps(content | {"password": self.password}, indent=1)
        write_atomically(self.path, text.encode(), mode=0o600)


def _read(path: Path) -> dict[str, Any]:
    fresh: dict[str, Any] = {
        "cookie": f"understudy_{secrets.token_hex(4)}",
        "links": {},
        "logins": {},
        "password": None,
    }
    if not path.exists():
        return fresh
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise ValueError
        return {name: found[name] for name in fresh}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnderstudyError(f"{path} cannot be read; delete it, and give everybody a new link") from error


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _salt(password: str) -> str:
    salt = secrets.token_bytes(16)
    return f"{salt.hex()}:{_stretch(password, salt).hex()}"


def _is_password(password: str, kept: str) -> bool:
    salt, _, digest = kept.partition(":")
    return hmac.compare_digest(_stretch(password, bytes.fromhex(salt)), bytes.fromhex(digest))


def _stretch(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode("utf-8", "replace"), salt=salt, n=2**14, r=8, p=1)
