"""The path of a label: which files of the package one label runs through, and how often it goes from one to another.

    python benchmarks/label_path.py
    PYTHONPATH=/tmp/before/src python benchmarks/label_path.py        # of an older commit

Small digits are labelled through the real application until there are models; then one label is traced, from the
request to the next question, where no training is due and the next item is chosen by the surrogate. A *hop* is a call
from a function in one file to one in another, whatever of other packages lies between them.
"""

import argparse
import asyncio
import importlib
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import httpx

import understudy
from understudy.sessions.opening import open_session
from understudy.web.app import create_app

ROOT = f"{Path(understudy.__file__).parent}/"
LABELLING = ("web/", "sessions/", "labels/", "projects/")  # the rest is the mathematics and small checks
TRAININGS_FIRST = 5
# Where this version has it, and where older ones had it.
MODULES = ("understudy.projects.opening", "understudy.projects.project", "understudy.sessions.projects.project")


class Call(NamedTuple):
    """One call; the caller's are "" where another package called."""

    from_file: str
    caller: str
    to_file: str
    callee: str

    def __str__(self) -> str:
        return f"{self.from_file or '-'} {self.caller or '-'} -> {self.to_file} {self.callee}"


class Tracer:
    """Notes the calls of functions of the package while it is on, in threads that were started after it was made."""

    def __init__(self, root: str = ROOT) -> None:
        self.root, self.is_on = root, False
        self.calls: list[Call] = []
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if not self.is_on or event != "call" or not frame.f_code.co_filename.startswith(self.root):
            return
        back = frame.f_back
        while back is not None and not back.f_code.co_filename.startswith(self.root):
            back = back.f_back
        from_file, caller = ("", "") if back is None else (self._file(back), back.f_code.co_qualname)
        self.calls.append(Call(from_file, caller, self._file(frame), frame.f_code.co_qualname))

    def _file(self, frame: FrameType) -> str:
        return frame.f_code.co_filename.removeprefix(self.root)

    def stop(self) -> list[Call]:
        """Trace no longer; the calls from one file to another."""
        threading.setprofile(None)
        sys.setprofile(None)
        return [call for call in self.calls if call.from_file != call.to_file]


def find_create_or_open() -> Any:
    for name in MODULES:
        try:
            return importlib.import_module(name).create_or_open
        except (ImportError, AttributeError):
            continue
    raise SystemExit("create_or_open is in none of the modules that this script knows")


async def trace_a_label(tracer: Tracer, folder: Path) -> None:
    project = find_create_or_open()("digits", project=folder, basis_size=50, device="cpu", folder_labels=False)
    session = open_session(project)
    transport = httpx.ASGITransport(create_app(session))
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            asked = (await client.post("/api/next", json={"annotator": "ann"})).json()
            is_traced, turn = False, 0
            while not (is_traced and asked["ask"] == "choice" and not session.learning.is_busy):
                while session.learning.is_busy:
                    await asyncio.sleep(0.02)
                is_traced = asked["ask"] == "choice" and len(session.record.trainings) >= TRAININGS_FIRST
                turn += 1
                sent = {"item": asked["item"], "label": asked["item"] % 10, "annotator": "ann", "key": f"k{turn}"}
                tracer.calls.clear()
                tracer.is_on = is_traced
                answer = await client.post("/api/labels", json=sent)
                tracer.is_on = False
                asked = answer.json()["next"]
    finally:
        session.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", action="store_true", help="print every hop")
    given = parser.parse_args()
    tracer = Tracer()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(trace_a_label(tracer, Path(folder) / "digits"))
    hops = tracer.stop()
    files = {call.to_file for call in tracer.calls}
    own = sum(file.startswith(LABELLING[1:]) for file in files)
    print(f"{len(files)} files, of which {own} of sessions, labels and projects")
    of_labelling = [hop for hop in hops if hop.to_file.startswith(LABELLING)]
    print(f"{len(hops)} hops, of which {len(of_labelling)} into web, sessions, labels and projects")
    for hop, count in Counter(hops).items() if given.calls else ():
        print(f"{count:3} {hop}")


if __name__ == "__main__":
    main()
