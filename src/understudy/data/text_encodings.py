"""How the text of a file is encoded: UTF-8, UTF-16 with its mark, or Windows-1252, which Latin-1 is part of.

Bytes that are neither are refused rather than read as something they are not: of text in a wrong encoding every label
and every feature would be wrong, and nobody would be told.
"""

import codecs
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from understudy.data.faults import Fault
from understudy.data.items import make_printable
from understudy.errors import UnderstudyError

UTF8: Final = "utf-8-sig"
WESTERN: Final = "cp1252"
BYTES_PER_READ: Final = 2**20
MAX_ODD_SHARE: Final = 0.02  # of characters beyond ASCII that do not fit where they stand
MAX_WORD_LENGTH: Final = 30  # of the word that is shown
_UTF8_CHARACTER: Final = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_BEYOND_ASCII: Final = re.compile(rb"[\x80-\xff]")
_LETTER: Final = r"[A-Za-zÀ-ÖØ-öø-ÿŠŒŽšœžŸ]"
# What Western text hardly has, and text of another encoding that is read as Western has all over: a sign within a
# word, a capital after a small letter, three or more letters beyond ASCII in a row.
_ODD: Final = re.compile(
    rf"(?<={_LETTER})[^\x00-\x7fÀ-ÖØ-öø-ÿŠŒŽšœžŸ’‘–—…·\xad](?={_LETTER})"
    r"|(?<=[a-zß-öø-ÿ])[À-ÖØ-ÞŠŒŽŸ]"
    r"|[À-ÖØ-öø-ÿ]{3,}"
)
_WORD: Final = re.compile(r"\w*[^\x00-\x7f]\w*")


@dataclass(frozen=True)
class TextEncoding:
    """The encoding of a file, and the note for people where it is not UTF-8."""

    name: str
    note: Fault | None = None


def find_encoding(path: Path) -> TextEncoding:
    """The encoding of a file of text; an error where it cannot be told. UTF-8 with a few broken lines is UTF-8."""
    with path.open("rb") as stream:
        first = stream.read(4)
        if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return _check_utf16(path)
        stream.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while block := stream.read(BYTES_PER_READ):
                decoder.decode(block)
            decoder.decode(b"", final=True)
            return TextEncoding(UTF8)
        except UnicodeDecodeError:
            pass
    return _encoding_of_bytes(path.read_bytes(), str(path))


def decode_text(content: bytes, name: str) -> tuple[str, TextEncoding]:
    """The text in the bytes of a file, and how it was encoded; an error where that cannot be told."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        found = TextEncoding("utf-16", _note(name, "UTF-16", ""))
    else:
        try:
            return content.decode(UTF8), TextEncoding(UTF8)
        except UnicodeDecodeError:
            found = _encoding_of_bytes(content, name)
    try:
        return content.decode(found.name), found
    except UnicodeDecodeError as error:
        raise _refusal(name) from error


def _check_utf16(path: Path) -> TextEncoding:
    try:
        with path.open(encoding="utf-16") as stream:
            while stream.read(BYTES_PER_READ):
                pass
    except UnicodeError as error:
        raise UnderstudyError(f"{path} begins as UTF-16 and is damaged; save it as UTF-8") from error
    return TextEncoding("utf-16", _note(path.name, "UTF-16", ""))


def _encoding_of_bytes(content: bytes, name: str) -> TextEncoding:
    """The encoding of bytes that are not all UTF-8."""
    valid = _UTF8_CHARACTER.findall(content)
    rest = len(_BEYOND_ASCII.findall(_UTF8_CHARACTER.sub(b"", content)))
    if len(valid) >= rest:
        return TextEncoding(UTF8)  # whoever reads it meets the broken lines
    try:
        text = content.decode(WESTERN)
    except UnicodeDecodeError as error:
        raise _refusal(name) from error
    beyond = sum(letter > "\x7f" for letter in text)
    if "\0" in text or len(_ODD.findall(text)) > MAX_ODD_SHARE * beyond:
        raise _refusal(name)
    word = _WORD.search(text)
    return TextEncoding(WESTERN, _note(Path(name).name, "Windows-1252", word.group() if word else ""))


def _note(name: str, encoding: str, word: str) -> Fault:
    example = f", so that it has {make_printable(word[:MAX_WORD_LENGTH])!r}" if word else ""
    return Fault(
        make_printable(name),
        f"not in UTF-8; it is read as {encoding}{example}",
        "if that is wrong, save it as UTF-8",
        used=True,
    )


def _refusal(name: str) -> UnderstudyError:
    return UnderstudyError(
        f"{name} is in neither UTF-8 nor Windows-1252, so its letters would be wrong; save it as UTF-8"
    )
