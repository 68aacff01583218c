"""The package as an index shows it, the files that releases rest on, and the benchmark that tries all of it."""

import json
import re
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.metadata.spec import get_core_metadata_constructors
from hatchling.plugin.manager import PluginManager

from tests.benchmarks.scripts import script
from understudy import __version__
from understudy.installation import TASKS

ROOT = Path(__file__).parents[1]
wheel, install, extra_uses = script("wheel"), script("install"), script("extra_uses")
HERE = "https://example.org/understudy"
LINK = re.compile(r"\]\(([^)\s]+)\)")
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())


def metadata(repository: str = "") -> Any:
    """What the built package would say of itself, once the owner has named this address."""
    config = json.loads(json.dumps(CONFIG))
    config["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"] = repository
    made = get_core_metadata_constructors()["2.4"](ProjectMetadata(str(ROOT), PluginManager(), config))
    return message_from_string(made)


def test_without_an_address_the_description_has_no_link_that_leads_nowhere() -> None:
    made = metadata()
    text = made.get_payload()
    assert list(wheel.faults_of_metadata(made)) == []
    assert [link for link in LINK.findall(text) if not link.startswith("https://")] == []
    assert "docs/install.md" in text, "the text of the link stays"
    assert "![" not in text
    assert "invisible-code-block" not in text
    assert made["Author"] == "The Understudy developers"
    assert made.get_all("Project-URL") is None


def test_with_an_address_links_and_pictures_lead_to_the_version_that_was_built() -> None:
    made = metadata(f"{HERE}/")
    links = LINK.findall(made.get_payload())
    assert f"{HERE}/blob/v{__version__}/docs/install.md" in links
    assert f"{HERE}/raw/v{__version__}/docs/images/label.png" in links
    assert all(link.startswith("https://") for link in links)
    assert f"Source, {HERE}" in made.get_all("Project-URL")


def test_a_wheel_is_refused_that_lacks_something_or_has_more(tmp_path: Path) -> None:
    package = ROOT / "src" / "understudy"
    kept = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]

    def faults(left_out: str = "", more: str = "") -> list[str]:
        with zipfile.ZipFile(tmp_path / "made.whl", "w") as made:
            for name in (str(path.relative_to(ROOT / "src")) for path in kept):
                if name != left_out:
                    made.write(ROOT / "src" / name, name)
            if more:
                made.writestr(more, "")
        return list(wheel.faults_of_wheel(tmp_path / "made.whl"))

    assert faults() == []
    for name in ("understudy/py.typed", "understudy/sessions/log/migrations/env.py"):
        assert faults(left_out=name) == [f"{name} is missing"]
    for name in ("tests/__init__.py", "understudy/core/__pycache__/a.pyc", "understudy/web/static/assets/old.js"):
        assert faults(more=name) == [f"{name} does not belong into it"]


def test_every_python_that_is_tried_is_a_classifier() -> None:
    named = {line.split(" :: ")[-1] for line in CONFIG["project"]["classifiers"] if re.search(r":: 3\.\d+$", line)}
    matrix = re.findall(r"python: \[(.*)\]", (ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert matrix
    assert all(set(re.findall(r"3\.\d+", line)) == named for line in matrix)
    assert CONFIG["project"]["requires-python"] == f">={min(named)}"


def test_what_only_the_owner_knows_is_named_in_contributing() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    for line in wheel.unsaid():
        assert f"`{line.partition(':')[0]}`" in page.partition("## Before a release")[2]
    assert wheel.NOT_SAID in page


def test_the_citation_is_of_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {__version__}\n" in text
    assert "name: The Understudy developers" in text
    for name in ("Yunpyo", "Suyeong", "Kwang In"):
        assert f"given-names: {name}\n" in text


def test_the_image_is_built_from_files_that_are_there() -> None:
    assert (ROOT / ".containerignore").read_text() == (ROOT / ".dockerignore").read_text()
    kept = re.findall(r"^!(.+)$", (ROOT / ".containerignore").read_text(), re.MULTILINE)
    assert all((ROOT / name).exists() for name in kept)
    wanted = {"pyproject.toml", "README.md", "LICENSE", "hatch_build.py", "constraints.txt", "src"}
    assert set(kept) == wanted, "what `pip wheel .` reads"


def test_every_extra_is_tried_and_used() -> None:
    assert set(install.EXTRAS) == set(extra_uses.USES) == set(TASKS)


@pytest.mark.parametrize("name", ["docs/install.md", "README.md"])
def test_the_tables_are_those_of_the_kept_results(name: str) -> None:
    results = ROOT / "benchmarks" / "results"
    cpu, cuda = (json.loads((results / f"{kept}.json").read_text()) for kept in ("install", "install-cuda"))
    page = (ROOT / name).read_text()
    made = (
        install.readme_with_sizes(page, cpu["extras"])
        if name == "README.md"
        else install.page_with_tables(page, cpu, cuda)
    )
    assert page == made, "run: python benchmarks/install.py"
