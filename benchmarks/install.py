"""The wheel in clean environments: what it takes to install, whether it works there, and each extra alone, used once.

    python benchmarks/install.py dist/understudy_al-*.whl --extras none          # as most people install it
    python benchmarks/install.py dist/understudy_al-*.whl --torch torch==2.13.0+cpu           # torch for the CPU

First a clean environment with the wheel and what it asks for; `understudy label --demo` serves a label there with
nothing on the path but that environment, so without Node, git or a compiler. Then one environment for each extra. It
sees the first one's packages through a path file, so that torch is installed once and not fifteen times; what is
counted is what the extra adds. A build of torch for the CPU has to be where pip looks: `PIP_EXTRA_INDEX_URL` says more
places. PostgreSQL is a server of its own, of the programs that are installed here.
"""

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "benchmarks" / "results"
PAGE: Final = ROOT / "docs" / "install.md"
README: Final = ROOT / "README.md"
USES: Final = ROOT / "benchmarks" / "extra_uses.py"
ABSENT: Final = ("node", "npm", "git", "gcc", "cc", "g++", "clang", "make")
IMPORTS: Final = {
    "import understudy": ("-c", "import understudy"),
    "understudy --help": (),
    "from understudy import Surrogate": ("-c", "from understudy import Surrogate"),
    "from understudy import ActiveLoop": ("-c", "from understudy import ActiveLoop"),
    "import torch": ("-c", "import torch"),
}
RUNS: Final = 5
SECONDS_TO_ANSWER: Final = 300
EXTRAS: Final = (
    "plot", "vision", "text", "onnx", "hub", "cluster", "postgres", "heic", "excel",
    "labelstudio", "skactiveml", "finetune", "lightning", "mlflow", "tensorboard",
)  # fmt: skip


class Environment:
    """A virtual environment in a folder; a layer sees the packages of another one beside its own."""

    def __init__(self, folder: Path, below: "Environment | None" = None) -> None:
        self.folder, self.below = folder, below
        without_pip = ["--without-pip"] if below else []
        subprocess.run([sys.executable, "-m", "venv", *without_pip, str(folder)], check=True)
        self.bin = folder / "bin"
        self.packages = next((folder / "lib").glob("python*/site-packages"))
        if below:
            (self.packages / "below.pth").write_text(f"{below.packages}\n")

    def install(self, *wanted: str, constraints: Sequence[str] = ()) -> float:
        """Install packages; the seconds it took."""
        pip = [str((self.below or self).bin / "python"), "-m", "pip"]
        target = ["--python", str(self.bin / "python")] if self.below else []
        limits = self.folder / "constraints.txt"
        limits.write_text("\n".join(constraints))
        began = time.perf_counter()
        command = [*pip, *target, "install", "--quiet", "--no-warn-script-location", "--disable-pip-version-check"]
        done = subprocess.run([*command, "-c", str(limits), *wanted], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"pip cannot install {' '.join(wanted)}: {done.stderr[-600:]}")
        return time.perf_counter() - began

    def call(self, *command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=folder, env=self.variables(folder, **variables), capture_output=True, text=True, check=False,
        )  # fmt: skip

    def variables(self, folder: Path, **more: str) -> dict[str, str]:
        """What a process sees: this environment's programs and no others."""
        return {"PATH": str(self.bin), "HOME": str(folder), "LANG": "C.UTF-8", "RAY_USAGE_STATS_ENABLED": "0", **more}

    def version(self, package: str) -> str:
        said = self.call(
            "python", "-c", f"from importlib.metadata import version as v; print(v('{package}'))", folder=ROOT
        )
        return said.stdout.strip()

    @property
    def megabytes(self) -> float:
        """What its packages take on the disk; files with two names count once."""
        files = {path.stat().st_ino: path.stat().st_size for path in self.packages.rglob("*") if path.is_file()}
        return round(sum(files.values()) / 1e6, 1)

    @property
    def n_packages(self) -> int:
        return sum(1 for _ in self.packages.glob("*.dist-info"))


def time_imports(environment: Environment, folder: Path) -> dict[str, dict[str, float]]:
    """Seconds of a new process, by the clock and of the processor: medians of some runs, all files read before."""
    found = {}
    for name, arguments in IMPORTS.items():
        if name == "understudy --help":
            command = [str(environment.bin / "understudy"), "--help"]
        else:
            command = [str(environment.bin / "python"), *arguments]
        runs = [time_process(command, environment.variables(folder)) for _ in range(RUNS + 1)][1:]
        walls, cpus = zip(*runs, strict=True)
        found[name] = {"seconds": round(statistics.median(walls), 3), "cpu": round(statistics.median(cpus), 3)}
    return found


def time_process(command: Sequence[str], variables: dict[str, str]) -> tuple[float, float]:
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, check=True, env=variables, stdout=subprocess.DEVNULL)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, cpu


# -- labelling --------------------------------------------------------------------------------------------------------


def request(address: str, body: dict[str, Any] | None = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        content: bytes = answer.read()
        return content


def label_demo(environment: Environment, folder: Path) -> dict[str, float]:
    """Serve the demonstration with nothing else on the path; seconds until the page, the first item and its answer."""
    variables = environment.variables(folder)
    there = [name for name in ABSENT if shutil.which(name, path=variables["PATH"])]
    assert not there, f"on the path: {there}"
    command = [str(environment.bin / "understudy"), "label", "--demo", "--no-browser"]
    began = time.perf_counter()
    server = subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split("http", 1)[1].split()[0]
        address = f"http{address}"
        page = request(address).decode()
        seconds = {"page": time.perf_counter() - began}
        for name in [part.split('"')[0] for part in page.split("./assets/")[1:]]:
            assert request(f"{address}assets/{name}")
        question = first_question(address)
        seconds["first item"] = time.perf_counter() - began
        answer = {"item": question["item"], "label": 3, "annotator": "ann", "key": "one"}
        asked = time.perf_counter()
        stored = json.loads(request(f"{address}api/labels", answer))
        seconds["answer to a label"] = time.perf_counter() - asked
        assert stored["labelled"] == 1
        assert stored["next"]["item"] not in (None, question["item"])
    finally:
        server.terminate()
        server.wait(60)
    assert server.returncode == 0, server.returncode
    return {name: round(value, 3) for name, value in seconds.items()}


def first_question(address: str) -> dict[str, Any]:
    """The first item; until features and surrogate are there, the server says to ask again."""
    ends = time.monotonic() + SECONDS_TO_ANSWER
    while time.monotonic() < ends:
        with contextlib.suppress(urllib.error.HTTPError):
            question: dict[str, Any] = json.loads(request(f"{address}api/next", {"annotator": "ann"}))
            return question
        time.sleep(0.1)
    raise RuntimeError(f"no item within {SECONDS_TO_ANSWER} seconds")


# -- extras -----------------------------------------------------------------------------------------------------------


@contextmanager
def services(extra: str) -> Iterator[dict[str, str]]:
    """What the use of an extra finds in its environment: the address of a database of its own."""
    if extra != "postgres":
        yield {}
        return
    sys.path.insert(0, str(ROOT))
    from tests.sessions.postgres import running

    with running() as cluster:
        yield {"UNDERSTUDY_POSTGRES": cluster.url()}


def try_extra(base: Environment, wheel: Path, extra: str, scratch: Path) -> dict[str, Any]:
    """An extra alone in an environment of its own, used once: what it adds and how long both take."""
    layer = Environment(scratch / extra, below=base)
    home = scratch / f"{extra} home"
    home.mkdir()
    kept = [f"torch=={base.version('torch')}"]
    found: dict[str, Any] = {"install seconds": round(layer.install(f"{wheel}[{extra}]", constraints=kept), 1)}
    assert layer.version("torch") == base.version("torch")
    found |= {"packages": layer.n_packages, "megabytes": layer.megabytes}
    began = time.perf_counter()
    with services(extra) as variables:
        done = layer.call("python", str(USES), extra, folder=home, **variables)
    found["use seconds"] = round(time.perf_counter() - began, 1)
    found["used"] = done.returncode == 0 and f"used: {extra}" in done.stdout
    notes = [line for line in done.stdout.splitlines() if line.startswith("went on without")]
    if notes or not found["used"]:
        found["said"] = notes[0] if found["used"] else (done.stderr.strip().splitlines() or ["nothing"])[-1]
    shutil.rmtree(layer.folder)
    return found


def examine(wheel: Path, torch: str, extras: Sequence[str], scratch: Path) -> Iterator[dict[str, Any]]:
    """All that is measured: the report when the core is done, and again with each extra."""
    base, home = Environment(scratch / "base"), scratch / "home"
    home.mkdir()
    report: dict[str, Any] = {
        "wheel": {"name": wheel.name, "megabytes": round(wheel.stat().st_size / 1e6, 2)},
        "machine": {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
        },
    }
    seconds = base.install(str(wheel), constraints=[torch])
    doctor = base.call("understudy", "doctor", "--json", folder=home)
    report["plain"] = {
        "install seconds": round(seconds, 1),
        "megabytes": base.megabytes,
        "packages": base.n_packages,
        "torch": base.version("torch"),
        "doctor": json.loads(doctor.stdout)["works"],
    }
    report["label --demo"] = label_demo(base, home)
    report["imports"] = time_imports(base, home)
    report["extras"] = {}
    yield report
    for extra in extras:
        report["extras"][extra] = try_extra(base, wheel, extra, scratch)
        print(extra, report["extras"][extra], file=sys.stderr, flush=True)
        yield report


# -- pages ------------------------------------------------------------------------------------------------------------


def page_with_tables(text: str, cpu: dict[str, Any], cuda: dict[str, Any]) -> str:
    """docs/install.md with the tables of these results."""
    for name, lines in (("sizes", table_of_sizes(cpu, cuda)), ("extras", table_of_extras(cpu["extras"]))):
        begin, end = (f"<!--- {name}{mark} --->" for mark in ("", ", end"))
        before, rest = text.split(f"{begin}\n")
        text = "\n".join([f"{before}{begin}", *lines, f"{end}{rest.split(end)[1]}"])
    return text


def table_of_sizes(cpu: dict[str, Any], cuda: dict[str, Any]) -> Iterator[str]:
    both = (cpu, cuda)
    yield "| | torch for the CPU | torch with CUDA |"
    yield "|---|---:|---:|"
    yield row_of("torch", *(run["plain"]["torch"] for run in both))
    yield row_of("on the disk", *(f"{run['plain']['megabytes']:,.0f} MB" for run in both))
    yield row_of("packages", *(run["plain"]["packages"] for run in both))
    yield row_of("to install", *(f"{run['plain']['install seconds']:.0f} s" for run in both))
    for name, what in (("page", "`label --demo`: the page is there"), ("first item", "the first item")):
        yield row_of(what, *(f"{run['label --demo'][name]:.1f} s" for run in both))
    for name in IMPORTS:
        yield row_of(f"`{name}`", *("{cpu:.2f} s".format(**run["imports"][name]) for run in both))


def table_of_extras(extras: dict[str, Any]) -> Iterator[str]:
    yield "| extra | packages | MB | to install | its use | worked |"
    yield "|---|---:|---:|---:|---:|---|"
    for name, found in ((name, extras[name]) for name in EXTRAS if name in extras):
        seconds = (f"{found[key]:.0f} s" for key in ("install seconds", "use seconds"))
        worked = ("yes, without torchvision's operators" if "said" in found else "yes") if found["used"] else "no"
        yield row_of(f"`{name}`", found["packages"], f"{found['megabytes']:,.0f}", *seconds, worked)


def row_of(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def readme_with_sizes(text: str, extras: dict[str, Any]) -> str:
    """README.md whose table of extras says what each adds."""

    def with_size(found: re.Match[str]) -> str:
        size = f"{extras[found[1]]['megabytes']:,.0f}" if found[1] in extras else ""
        return f"| `{found[1]}` | {found[2]} | {size} |"

    before, table = text.split("| extra | for | MB |", 1)
    table, rest = table.split("\n\n", 1)
    table = re.sub(r"^\| `(\w+)` \| (.*?) \|[ \d,]*\|$", with_size, table, flags=re.MULTILINE)
    return f"{before}| extra | for | MB |{table}\n\n{rest}"


def write_pages() -> None:
    cpu, cuda = (json.loads((RESULTS / name).read_text()) for name in ("install.json", "install-cuda.json"))
    PAGE.write_text(page_with_tables(PAGE.read_text(), cpu, cuda))
    README.write_text(readme_with_sizes(README.read_text(), cpu["extras"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, nargs="?", help="none: write the tables of the kept results into the pages")
    parser.add_argument(
        "--torch", default="torch", help="which one, as pip's constraints say it; the newest if not given"
    )
    parser.add_argument("--extras", default="all", help="all, none, or some with commas")
    parser.add_argument("--out", type=Path, help="where the results are kept; extras tried before stay")
    parser.add_argument("--scratch", type=Path, help="a folder for the environments; removed at the end")
    options = parser.parse_args()
    if options.wheel is None:
        return write_pages()
    named = {"all": EXTRAS, "none": ()}.get(options.extras)
    extras = options.extras.split(",") if named is None else named
    before = json.loads(options.out.read_text())["extras"] if options.out and options.out.exists() else {}
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        for report in examine(options.wheel.resolve(), options.torch, extras, Path(scratch)):
            if options.out:
                kept = {**report, "extras": {**before, **report["extras"]}}
                options.out.write_text(json.dumps(kept, indent=1) + "\n")
    failed = [name for name, found in report["extras"].items() if not found["used"]]
    print(json.dumps(report, indent=1))
    if failed:
        sys.exit(f"not usable: {', '.join(failed)}")
    return None


if __name__ == "__main__":
    main()
