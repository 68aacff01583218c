"""HTTPS by certificate files: checked before anything is made, and taken up anew when they are renewed.

The certificate is in PEM, with the chain after it where there is one; so is its key, which may be in the same file.
"""

import logging
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from understudy.errors import UsageError

log = logging.getLogger("understudy.web")

PASSWORD_VARIABLE: Final = "UNDERSTUDY_KEY_PASSWORD"
WARN_DAYS: Final = 14  # before its end a certificate is said to end
LONG_FORM: Final = 0x80  # of a length in DER: so many bytes follow that say it
UTC_TIME, GENERALIZED_TIME, SEQUENCE = 0x17, 0x18, 0x30
VERSION: Final = 0xA0  # the optional first field of a certificate
CENTURY: Final = 50  # two digits below it are of this century, as RFC 5280 says


@dataclass(frozen=True)
class Certificate:
    """A certificate with its key, which fit each other and are valid now."""

    certfile: Path
    keyfile: Path
    password: str | None = field(default=None, repr=False)

    def make_context(self) -> ssl.SSLContext:
        """A context of TLS 1.2 or later with what the files hold now; UsageError says in a line what is wrong."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        starts, ends = validity_of(self.certfile)
        _require_readable(self.keyfile, "--keyfile")
        try:
            context.load_cert_chain(self.certfile, self.keyfile, password=self._give_password)
        except (ssl.SSLError, OSError) as error:
            raise UsageError(self._explain(error)) from error
        now = time_now()
        if now > ends:
            raise UsageError(f"the certificate {self.certfile} ended on {ends:%Y-%m-%d}; give one that is valid")
        if now < starts:
            raise UsageError(f"the certificate {self.certfile} is valid only from {starts:%Y-%m-%d %H:%M} UTC on")
        return context

    def warnings(self) -> Iterator[str]:
        """A line for people where the certificate ends soon."""
        _, ends = validity_of(self.certfile)
        if (ends - time_now()).days < WARN_DAYS:
            yield f"the certificate {self.certfile} ends on {ends:%Y-%m-%d}; renew it, and no restart is needed"

    def signature(self) -> tuple[tuple[int, int, int], ...]:
        """What changes when one of the files does."""
        found = [path.stat() for path in (self.certfile, self.keyfile)]
        return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in found)

    def _give_password(self) -> str:
        if self.password is None:
            raise UsageError(f"the key {self.keyfile} is encrypted; put its password into {PASSWORD_VARIABLE}")
        return self.password

    def _explain(self, error: OSError) -> str:
        words = str(error)
        if "KEY_VALUES_MISMATCH" in words:
            return f"the key {self.keyfile} does not belong to the certificate {self.certfile}"
        if self.password is not None and "ENCRYPTED" in self.keyfile.read_text(encoding="ascii", errors="replace"):
            return f"the password in {PASSWORD_VARIABLE} does not open the key {self.keyfile}"
        if "KEY_TOO_SMALL" in words or "MD_TOO_WEAK" in words:
            return f"the certificate {self.certfile} is too weak for TLS today; have a new one made"
        return f"{self.keyfile} has no private key in PEM that fits {self.certfile}; give its --keyfile"


def find_certificate(certfile: Path | None, keyfile: Path | None, password: str | None = None) -> Certificate | None:
    """The certificate in these files, tried out; None where none was given. A key may be in the certificate's file."""
    if certfile is None:
        if keyfile is not None:
            raise UsageError(f"--keyfile {keyfile} is of no use alone; give the certificate as --certfile")
        return None
    found = Certificate(certfile, certfile if keyfile is None else keyfile, password)
    found.make_context()
    return found


class RenewedContext:
    """What a connection is encrypted with: the certificate of the files as they are when it begins.

    Renewed files are loaded into a context of their own, so that a half-written pair never takes the place of one that
    works; a connection is then given that context in the middle of its handshake.
    """

    def __init__(self, certificate: Certificate) -> None:
        self.certificate = certificate
        self.seen = certificate.signature()
        self.current = self.first = certificate.make_context()
        self.first.sni_callback = self._hand_current

    def _hand_current(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        self.look()
        if self.current is not self.first:
            connection.context = self.current

    def look(self) -> None:
        """Load the files anew if they have changed. What cannot be used is said once, and that of before goes on."""
        try:
            now = self.certificate.signature()
        except OSError:
            now = ()  # gone, perhaps only while they are being replaced
        if now == self.seen:
            return
        self.seen = now
        try:
            self.current = self.certificate.make_context()
        except UsageError as error:
            log.warning("the certificate of before stays in use: %s", error)


def time_now() -> datetime:
    return datetime.now(UTC)


def validity_of(path: Path) -> tuple[datetime, datetime]:
    """From when and until when the first certificate in a file is valid."""
    _require_readable(path, "--certfile")
    try:
        text = path.read_text(encoding="ascii", errors="replace")
        begin = text.index("-----BEGIN CERTIFICATE-----")
        end = text.index("-----END CERTIFICATE-----", begin) + len("-----END CERTIFICATE-----")
        return _validity_in(ssl.PEM_cert_to_DER_cert(text[begin:end]))
    except (ValueError, IndexError) as error:
        raise UsageError(f"{path} is not a certificate in PEM; it begins with -----BEGIN CERTIFICATE-----") from error


def _require_readable(path: Path, option: str) -> None:
    try:
        with path.open("rb"):
            return
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be read ({error.strerror or error})") from error


def _validity_in(der: bytes) -> tuple[datetime, datetime]:
    """The two times in a certificate: SEQUENCE of [version], number, algorithm, issuer, validity, ... (RFC 5280)."""
    (_, whole), *_ = _parts_of(der)
    (_, signed), *_ = _parts_of(whole)
    fields = [(tag, content) for tag, content in _parts_of(signed) if tag != VERSION]
    tag, content = fields[3]
    if tag != SEQUENCE:
        raise ValueError
    (first, starts), (second, ends) = _parts_of(content)
    return _time_of(first, starts), _time_of(second, ends)


def _parts_of(der: bytes) -> Iterator[tuple[int, bytes]]:
    """What follows one another in DER: tag and content."""
    at = 0
    while at < len(der):
        tag, size = der[at], der[at + 1]
        at += 2
        if size & LONG_FORM:
            n = size & ~LONG_FORM
            size = int.from_bytes(der[at : at + n], "big")
            at += n
        yield tag, der[at : at + size]
        at += size


def _time_of(tag: int, content: bytes) -> datetime:
    text = content.decode("ascii")
    if tag == UTC_TIME:
        text = f"{'20' if int(text[:2]) < CENTURY else '19'}{text}"
    elif tag != GENERALIZED_TIME:
        raise ValueError
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
