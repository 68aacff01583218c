"""Files in other encodings than UTF-8: recognised and told, or refused whole; never read as something else."""

from pathlib import Path

import pytest

from understudy.data.tables import read_table
from understudy.data.text_encodings import UTF8, decode_text, find_encoding
from understudy.errors import UnderstudyError

WESTERN = {
    "German": "Die Straße nach Zürich führt über Österreich – „schön“, sagt Jürgen, für 5 €.",
    "French": "L’été, à l’hôtel, c’était très agréable… Où êtes-vous ? Œuvre, cœur, Noël.",
    "Spanish": "¿Dónde está el niño? ¡Mañana, señor! El año pasado comió jamón.",
    "Danish": "Blåbærgrød på Ærø, høj sø, ål og Århus.",
    "Portuguese": "Não há informações: coração, pão, ação, avó.",
    "one word": "cafés",
}
OTHERS = {
    "cp1251": "Привет, как дела? Это хороший день для прогулки.",
    "koi8-r": "Привет, как дела? Это хороший день для прогулки.",
    "cp1253": "Καλημέρα, τι κάνεις σήμερα;",
    "shift_jis": "今日はとても良い天気ですね。散歩に行きましょう。",
    "gb18030": "今天天气很好，我们去散步吧。",
    "euc-kr": "안녕하세요 오늘은 날씨가 좋습니다",
    "mac-roman": "Die Straße nach Zürich führt über Österreich, sagt Jürgen, très agréable, été",
    "cp850": "Die Straße nach Zürich führt über Österreich, sagt Jürgen",
}
CENTRAL = {
    "Czech": ("cp1250", "dobrý film, ale příliš dlouhý a nemá žádný děj"),
    "Czech in ISO": ("iso8859-2", "dobrý film, ale příliš dlouhý a nemá žádný děj"),
    "Slovak": ("cp1250", "veľmi dobrý film, ktorý má však slabý záver a ťažko sa naň pozerá"),
    "Polish": ("cp1250", "bardzo dobry film, piękne zdjęcia, ale aktorzy są słabi i żałuję"),
    "Polish in ISO": ("iso8859-2", "bardzo dobry film, piękne zdjęcia, ale aktorzy są słabi i żałuję"),
    "Hungarian": ("cp1250", "gyönyörű képek, őszintén szólva unalmas, de nézhető, és nincs benne erő"),
    "Romanian": ("cp1250", "o poveste frumoasă şi nişte oameni fără viaţă în oraş, cu fraţii şi părinţii lor"),
    "Slovene": ("cp1250", "človek in žena šivata čez večer, češnje in hruške že zorijo, škoda"),
    "Croatian": ("cp1250", "čovjek je život proveo šuteći, đak i učitelj išli su kući"),
    "Turkish": ("cp1254", "çok güzel bir film, şiir gibi, ağır ve kısa, İstanbul’da geçiyor"),
}


@pytest.mark.parametrize("language", WESTERN)
def test_western_text_in_windows_1252_is_recognised_and_told(tmp_path: Path, language: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(f"text,label\n{WESTERN[language].replace(',', '')},x\n".encode("cp1252"))
    table = read_table(path, {})
    assert table.values["text"] == [WESTERN[language].replace(",", "")]
    [note] = table.faults
    assert note.used
    assert "not in UTF-8; it is read as Windows-1252, so that it has '" in note.problem


@pytest.mark.parametrize("language", CENTRAL)
def test_text_of_central_europe_and_turkey_is_recognised_and_told(tmp_path: Path, language: str) -> None:
    encoding, text = CENTRAL[language]
    path = tmp_path / "table.csv"
    path.write_bytes(f"text,label\n{text.replace(',', '')},x\n".encode(encoding))
    table = read_table(path, {})
    assert table.values["text"] == [text.replace(",", "")]
    assert "not in UTF-8; it is read as Windows-1252" not in table.faults[0].problem


def test_western_text_of_several_languages_stays_western(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("text\n" + "\n".join(text.replace(",", "") for text in WESTERN.values()), encoding="cp1252")
    assert "Windows-1252" in read_table(path, {}).faults[0].problem


@pytest.mark.parametrize("encoding", OTHERS)
def test_text_in_another_encoding_is_refused_whole(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(f"text,label\nplain,x\n{OTHERS[encoding]},x\n".encode(encoding))
    with pytest.raises(UnderstudyError, match="in neither UTF-8 nor an encoding that is recognised") as error:
        read_table(path, {})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("language", [*WESTERN, *OTHERS, *CENTRAL])
def test_unicode_is_read_in_every_language(tmp_path: Path, encoding: str, language: str) -> None:
    text = (WESTERN | OTHERS | {name: text for name, (_, text) in CENTRAL.items()})[language].replace(",", "")
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    path = tmp_path / "table.csv"
    path.write_bytes(f"{mark}text,label\n{text},x\n".encode(encoding))
    assert read_table(path, {}).values["text"] == [text]
    assert (find_encoding(path).note is None) is encoding.startswith("utf-8")


def test_utf8_with_a_broken_line_stays_utf8(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes("text\nZürich\nKäse\nüber\n".encode() + b"K\xe4se\n")
    table = read_table(path, {})
    assert table.values["text"] == ["Zürich", "Käse", "über"]
    assert [fault.problem for fault in table.faults] == ["not in UTF-8"]


def test_a_character_that_a_block_cuts_in_two_is_one_character(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_bytes(b"a" * (2**20 - 1) + "é\n".encode() * 10)
    assert find_encoding(path).name == UTF8


def test_binary_content_is_refused() -> None:
    with pytest.raises(UnderstudyError, match="in neither"):
        decode_text(b"\x00\x01\xff\xfeabc\xe4", "table.csv")
    with pytest.raises(UnderstudyError, match="in neither"):
        decode_text(b"caf\xe9 \x81", "table.csv")
