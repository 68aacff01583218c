"""Build the source archive and the wheel, and check what is in them: everything that runs, and nothing else.

    python benchmarks/wheel.py --out dist

needs `build` and `twine`. The wheel is made of the source archive, as an index would make it. `make wheel` does this in
an environment of its own.
"""

import argparse
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = "understudy"
PAGE: Final = f"{PACKAGE}/web/static"
RESULTS_PAGES: Final = tuple(
    f"{PACKAGE}/experiments/{name}"
    for name in (
        *(f"{page}.html.jinja" for page in ("page", "parts", "report", "joint", "leaderboard")),
        *(f"static/{script}.js" for script in ("page", "plot", "charts")),
    )
)
BESIDE_CODE: Final = (f"{PACKAGE}/py.typed", *RESULTS_PAGES, f"{PAGE}/index.html", f"{PAGE}/built-from.txt")
RELATIVE: Final = re.compile(r"\]\((?![a-z]+:|#)([^)\s]+)\)")
NOT_SAID: Final = "the owner fills this in"
MAX_MEGABYTES: Final = 5


def build(out: Path) -> Path:
    """The wheel, newly built by way of the source archive."""
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("understudy_al-*.whl"), *out.glob("understudy_al-*.tar.gz")):
        old.unlink()
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], check=True, stdout=sys.stderr)
    subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, out.glob("understudy_al-*"))],
        check=True,
        stdout=sys.stderr,
    )
    return next(out.glob("understudy_al-*.whl"))


def read_metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def faults_of_wheel(wheel: Path) -> Iterator[str]:
    """What is wrong with it, a line each."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        page = archive.read(f"{PAGE}/index.html").decode() if f"{PAGE}/index.html" in names else ""
    source = ROOT / "src"
    wanted = {str(path.relative_to(source)) for path in (source / PACKAGE).rglob("*.py")} | set(BESIDE_CODE)
    wanted |= {f"{PAGE}/{address.lstrip('./')}" for address in re.findall(r"(?:src|href)=\"([^\":]+)\"", page)}
    yield from (f"{name} is missing" for name in sorted(wanted - names))
    foreign = (name for name in names - wanted if not name.startswith("understudy_al-"))
    yield from (f"{name} does not belong into it" for name in sorted(foreign))
    if wheel.stat().st_size > MAX_MEGABYTES * 1e6:
        yield f"it has {wheel.stat().st_size / 1e6:.1f} MB, more than {MAX_MEGABYTES}"


def faults_of_metadata(metadata: Message) -> Iterator[str]:
    """What a reader of the package's page would stumble over."""
    text = str(metadata.get_payload())
    yield from (f"the link to {link} leads nowhere outside of the repository" for link in RELATIVE.findall(text))
    for field in ("Summary", "Author", "License-Expression", "Requires-Python", "Keywords", "Classifier"):
        if not metadata.get(field):
            yield f"the field {field} is empty"


def unsaid() -> Iterator[str]:
    """What only the owner knows and has not said yet: no reason against a build, but against a release."""
    for name in ("pyproject.toml", "SECURITY.md"):
        text = (ROOT / name).read_text()
        if NOT_SAID in text and (name != "pyproject.toml" or 'repository = ""' in text):
            yield f"{name}: {NOT_SAID} (CONTRIBUTING.md, Before a release)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--release", action="store_true", help="fail where the owner has something left to fill in")
    options = parser.parse_args()
    wheel = build(options.out)
    left = list(unsaid())
    faults = [*faults_of_wheel(wheel), *faults_of_metadata(read_metadata(wheel)), *(left if options.release else ())]
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.2f} MB")
    for line in (*faults, *(() if options.release else left)):
        print(line)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
