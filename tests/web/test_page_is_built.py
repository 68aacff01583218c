"""The page that is served was built from the source that is here, and asks for nothing from elsewhere."""

import dataclasses
import gzip
import hashlib
import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "page"
STATIC = ROOT / "src" / "understudy" / "web" / "static"
SOURCES = ["built-from.ts", "index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts"]
MOST_SCRIPT = 72 * 1024  # bytes, compressed
NAMESPACE = re.compile(r"http://www\.w3\.org/[\w/]+")  # names of XML, never fetched


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def digest_of_sources(page: Path) -> str:
    """What `page/built-from.ts` computes when it builds."""
    names = [*SOURCES, *(path.relative_to(page).as_posix() for path in (page / "src").rglob("*") if path.is_file())]
    return sha256("".join(f"{sha256((page / name).read_bytes())}  {name}\n" for name in sorted(names)).encode())


def recorded() -> dict[str, str]:
    """Digests by name, as the build wrote them down."""
    lines = (STATIC / "built-from.txt").read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def built() -> dict[str, bytes]:
    files = [path for path in STATIC.rglob("*") if path.is_file() and path.name != "built-from.txt"]
    return {path.relative_to(STATIC).as_posix(): path.read_bytes() for path in files}


def test_the_built_page_is_as_new_as_its_source() -> None:
    assert recorded()["page"] == digest_of_sources(PAGE), "the page's source has changed; run make page"


def test_a_change_of_any_source_is_noticed(tmp_path: Path) -> None:
    for name in SOURCES:
        (tmp_path / name).write_bytes((PAGE / name).read_bytes())
    (tmp_path / "src").mkdir()
    before = digest_of_sources(tmp_path)
    (tmp_path / "src" / "one.ts").write_text("export {};\n")
    added = digest_of_sources(tmp_path)
    (tmp_path / "src" / "one.ts").write_text("export { };\n")
    assert len({before, added, digest_of_sources(tmp_path)}) == 3


def test_the_built_files_are_those_that_the_build_wrote() -> None:
    written = {name: digest for name, digest in recorded().items() if name != "page"}
    assert {name: sha256(content) for name, content in built().items()} == written, "run make page"


def test_the_page_names_only_files_that_are_there() -> None:
    files = built()
    named = re.findall(r'(?:src|href)="([^"]+)"', files["index.html"].decode())
    assert named
    assert {name.removeprefix("./") for name in named} | {"index.html"} == set(files)


@pytest.mark.parametrize("name", sorted(built()))
def test_a_built_file_asks_for_nothing_from_elsewhere_and_has_nothing_inline(name: str) -> None:
    text = NAMESPACE.sub("", built()[name].decode())
    assert re.findall(r"https?://[^\s\"'`]*|url\((?!\))[^)]*\)|@import", text) == []
    assert "sourceMappingURL" not in text
    assert not re.search(r"\beval\(|new Function\(", text)
    if name.endswith(".html"):
        assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\ssrc=)", text), "the security policy forbids it"


def test_texts_are_only_ever_text() -> None:
    assert [
        path.name
        for path in (PAGE / "src").rglob("*.ts*")
        if re.search("innerHTML|outerHTML|insertAdjacentHTML|InnerHTML", path.read_text())
    ] == []


def test_the_script_is_small() -> None:
    scripts = [content for name, content in built().items() if name.endswith(".js")]
    assert sum(len(gzip.compress(script)) for script in scripts) < MOST_SCRIPT


def test_packages_have_exact_versions_and_no_address_of_one_machine() -> None:
    wanted = json.loads((PAGE / "package.json").read_text())
    versions = {**wanted["dependencies"], **wanted["devDependencies"]}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions.values()), versions
    locked = json.loads((PAGE / "package-lock.json").read_text())["packages"]
    assert [name for name, package in locked.items() if "resolved" in package] == []
    assert all("integrity" in package for name, package in locked.items() if name)


def test_every_wanted_package_is_locked_for_every_platform() -> None:
    """What `npm ci` refuses otherwise: a lock written where some platforms' packages could not be had lacks them."""
    locked = json.loads((PAGE / "package-lock.json").read_text())["packages"]
    names = {name.rpartition("node_modules/")[2] for name in locked}
    wanted = {
        other
        for package in locked.values()
        for group in ("dependencies", "devDependencies", "optionalDependencies")
        for other in package.get(group, {})
    }
    assert wanted - names == set()


def interfaces(source: str) -> dict[str, set[str]]:
    """The fields of every interface in types.ts, with those of what it extends."""
    found: dict[str, set[str]] = {}
    for name, base, body in re.findall(r"export interface (\w+)(?: extends (\w+))? \{\n(.*?)\n\}", source, re.DOTALL):
        own = set(re.findall(r"^  (\w+)\??:", body, re.MULTILINE))
        found[name] = own | (found[base] if base else set())
    return found


def replies() -> dict[str, set[str]]:
    """The fields of every dataclass that is sent to the page."""
    modules = ("understudy.sessions.replies", "understudy.data.encoders.choice", "understudy.web.routes.files",
               "understudy.web.routes.people", "understudy.web.dependencies", "understudy.web.several")  # fmt: skip
    classes = [each for name in modules for each in vars(importlib.import_module(name)).values()]
    return {
        each.__name__: {field.name for field in dataclasses.fields(each)}
        for each in classes
        if isinstance(each, type) and dataclasses.is_dataclass(each)
    }


def test_the_page_knows_the_answers_field_by_field() -> None:
    known, sent = interfaces((PAGE / "src" / "types.ts").read_text()), replies()
    assert len(known) > 20
    assert set(known) - set(sent) == set()
    assert {name: fields ^ sent[name] for name, fields in known.items() if fields != sent[name]} == {}
