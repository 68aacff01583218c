"""How the text of a file is encoded: UTF-8, UTF-16 with its mark, Windows-1252 (Latin-1 is part of it), or what Central
Europe and Turkey use.

Bytes that are none of these are refused rather than read as something they are not: of text in a wrong encoding every
label and every feature would be wrong, and nobody would be told.
"""

import codecs
import math
import re
from collections import Counter
from collections.abc import Sequence
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
# Which encoding it is, single bytes do not say: what is "př" in one is "pø" in another. So the letters beyond ASCII are
# held against the alphabets of the languages that are written in it: Czech as Western text fits none of them.
_WESTERN_ALPHABETS: Final = (
    "äöüßé", "àâæçèéêëîïôœùûüÿ", "áéíñóúü", "ãáâàçéêíóôõúü", "àèéìíîòóùú", "áàäçéèêëíïóòöúü", "æøåéèòôàüö", "åäöéàü",
    "äöåšž", "õäöüšž", "áðéíóúýþæö", "áðíóúýæø", "àçèéíïòóúü", "áéíóú", "çë", "àâäèéêëìîïòôöùûüÿáíóú",
)  # fmt: skip
_OTHER_ALPHABETS: Final = {
    "cp1250": ("áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "ąćęłńóśźż", "áéíóöőúüű", "ăâîşţ", "čćđšž"),
    "iso8859-2": ("áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "ąćęłńóśźż", "áéíóöőúüű", "ăâîşţ", "čćđšž"),
    "cp1254": ("çğıöşüâîû",),
}
_ENCODING_NAMES: Final = {"cp1250": "Windows-1250", "iso8859-2": "ISO 8859-2", "cp1254": "Windows-1254"}
_NO_EVIDENCE: Final = "ªºµť"  # signs that count as letters, and the letter that guillemets are in ISO 8859-2
_SIGN_AT_WORD: Final = re.compile(r"(?<=[^\W\d_])[¢-¾](?<![ª«º»·°\xad])|[¢-¾](?<![ª«º»·°\xad])(?=[^\W\d_])|[\x80-\x9f]")
MIN_LETTERS: Final = 6  # beyond ASCII; fewer say too little about a language
MAX_FOREIGN_SHARE: Final = 0.03  # of the letters beyond ASCII that may be foreign to a language: names, quotations
MIN_FOREIGN: Final = 3  # so many, such a share, and so many times those of the other encoding
MIN_FOREIGN_SHARE: Final = 0.01
MIN_FOREIGN_RATIO: Final = 4
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
    other = _find_other_encoding(content)
    if other is not None:
        word = _WORD.search(content.decode(other))
        return TextEncoding(other, _note(Path(name).name, _ENCODING_NAMES[other], word.group() if word else ""))
    try:
        text = content.decode(WESTERN)
    except UnicodeDecodeError as error:
        raise _refusal(name) from error
    beyond = sum(letter > "\x7f" for letter in text)
    if "\0" in text or len(_ODD.findall(text)) > MAX_ODD_SHARE * beyond:
        raise _refusal(name)
    word = _WORD.search(text)
    return TextEncoding(WESTERN, _note(Path(name).name, "Windows-1252", word.group() if word else ""))


def _find_other_encoding(content: bytes) -> str | None:
    """The encoding in which the text is of one language, where as Western text it is of none."""
    counts = {name: _count_foreign(content, name, alphabets) for name, alphabets in _OTHER_ALPHABETS.items()}
    best = min(counts, key=lambda name: counts[name][0])
    foreign, total = counts[best]
    western, _ = _count_foreign(content, WESTERN, _WESTERN_ALPHABETS)
    fits = total >= MIN_LETTERS and foreign <= MAX_FOREIGN_SHARE * total
    is_not_western = western >= max(MIN_FOREIGN, MIN_FOREIGN_SHARE * total, MIN_FOREIGN_RATIO * foreign)
    return best if fits and is_not_western else None


def _count_foreign(content: bytes, encoding: str, alphabets: Sequence[str]) -> tuple[float, int]:
    """How many letters beyond ASCII, or signs at a word, the language that fits best does not have; and of how many."""
    try:
        text = content.decode(encoding).replace("İ", "i").lower()  # the small letter of İ would be two characters
    except UnicodeDecodeError:
        return math.inf, 0
    letters = Counter(letter for letter in text if letter > "\x7f" and letter.isalpha() and letter not in _NO_EVIDENCE)
    foreign = min(sum(count for letter, count in letters.items() if letter not in own) for own in alphabets)
    return foreign + len(_SIGN_AT_WORD.findall(text)), letters.total()


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
        f"{name} is in neither UTF-8 nor an encoding that is recognised; its letters would be wrong: save it as UTF-8"
    )
