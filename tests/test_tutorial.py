"""The tutorial is followed to the letter: every command and script of docs/tutorial.md, in a folder of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
ADDRESS = "http://127.0.0.1:8000"  # as the page shows it; here the port is whichever is free


def blocks() -> list[tuple[str, str]]:
    """Language and content of every block, in the order of the page."""
    return re.findall(r"^```(\w+)\n(.*?)^```", TUTORIAL, re.MULTILINE | re.DOTALL)


def environment(folder: Path) -> dict[str, str]:
    """The `understudy` and `python` of these tests come first, nothing is cached elsewhere, and no browser opens."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "UNDERSTUDY_HOME": str(folder / "cache"), "BROWSER": "true"}


def run(command: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def server(command: str, folder: Path) -> Iterator[str]:
    """Start `understudy label` and give the address that it prints; end it as Ctrl-C does."""
    printed = folder / "printed.txt"
    with printed.open("w") as file:
        running = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=folder, env=environment(folder), stdout=file, stderr=file
        )
    try:
        while not (found := re.search(r"label at (http://\S+?)/ ", printed.read_text())):
            assert running.poll() is None, printed.read_text()
            time.sleep(0.1)
        yield found[1]
        running.send_signal(signal.SIGINT)
        assert running.wait() == 0
    finally:
        running.kill()
        running.wait()


def test_the_tutorial_leads_from_a_folder_of_images_to_a_trained_model(tmp_path: Path) -> None:
    found = blocks()
    (_, start), *rest = [block for block in found if block[0] in ("sh", "python")]
    assert start == "mkdir understudy-tutorial\ncd understudy-tutorial\n"
    names = re.findall(r"[Ss]ave (?:it|this) as `(\w+\.py)`", " ".join(TUTORIAL.split()))
    scripts = [content for language, content in rest if language == "python"]
    assert len(names) == len(scripts) == 3
    served = [content for language, content in rest if content.startswith("understudy label")]
    assert len(served) == 1

    commands = [content for language, content in rest if language == "sh"]
    at = commands.index(served[0])
    for name, script in zip(names, scripts, strict=True):
        assert f"python {name}\n" in commands
        (tmp_path / name).write_text(script)
    assert [run(command, tmp_path) for command in commands[:at]]
    with server(served[0], tmp_path) as address:
        annotate = tmp_path / "annotate.py"
        assert ADDRESS in annotate.read_text()
        annotate.write_text(annotate.read_text().replace(ADDRESS, address))
        outputs = [run(command, tmp_path) for command in commands[at + 1 :]]

    assert re.match(r"120 labels; accuracy \d+%, 95 % interval \d+% to \d+%\n", outputs[0])
    share = re.fullmatch(r"(\d+)% of 597 new images are right\n", outputs[-1])
    assert share is not None
    assert int(share[1]) > 75  # about 90; which images are labelled depends on when a model is there
    assert (tmp_path / "labels.csv").read_text(encoding="utf-8-sig").count("\n") == 121
