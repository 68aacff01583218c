import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.waiting import is_running, wait_until
from understudy import UnderstudyError
from understudy.learners.command import Command
from understudy.learners.protocol import Learner, Model

# Learns the length of an identity: the class of the labelled item whose identity is most like it in length.
SCRIPT = """
import csv, sys
import numpy as np
labels, items, classes, predictions, seed = sys.argv[1:]
names = open(classes, encoding="utf-8").read().splitlines()
known = [(len(row["id"]), names.index(row["label"])) for row in csv.DictReader(open(labels, encoding="utf-8"))]
asked = [row["id"] for row in csv.DictReader(open(items, encoding="utf-8"))]
probs = np.full((len(asked), len(names)), 0.1)
for row, name in enumerate(asked):
    probs[row, min(known, key=lambda pair: abs(pair[0] - len(name)))[1]] += float(seed)
np.save(predictions, probs / probs.sum(1, keepdims=True))
"""
IDS = ("a", "b", 'ü,\n"x" and more', "another long one", "c")
CLASSES = ("short", "long, or so")
PLACES = "{labels} {items} {classes} {predictions} {seed}"


def command(folder: Path, script: str, places: str = PLACES, **settings: float) -> Command:
    file = folder / "my script.py"
    file.write_text(script)
    return Command(f"{sys.executable} {str(file)!r} {places}", IDS, CLASSES, folder, **settings)


def test_a_script_reads_labels_and_writes_predictions(tmp_path: Path) -> None:
    learner = command(tmp_path, SCRIPT)
    assert isinstance(learner, Learner)
    model = learner.fit([IDS[0], IDS[2]], np.array([0, 1]), 2, seed=5)
    assert isinstance(model, Model)
    probs = model.predict_proba(IDS[::-1])
    assert probs.argmax(1).tolist() == [0, 1, 1, 0, 0]
    np.testing.assert_allclose(probs.max(1), 5.1 / 5.2)


def test_the_command_runs_in_its_folder_and_leaves_nothing_behind(tmp_path: Path) -> None:
    script = "import os, sys; open('ran', 'w').write(os.path.dirname(sys.argv[1]))\n" + SCRIPT
    command(tmp_path, script).fit([IDS[0]], np.array([0]), 2)
    assert not Path((tmp_path / "ran").read_text()).exists()


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("print('first'); raise SystemExit('no GPU today')", "exited with 1; its last line: no GPU today"),
        ("pass", r"wrote no predictions; write a \(5, 2\) array"),
        ("import sys; open(sys.argv[4], 'w').write('hello')", "not a .npy array"),
        ("import sys, numpy; numpy.save(sys.argv[4], numpy.ones((5, 3)))", r"shape \(5, 2\); got \(5, 3\)"),
        ("import sys, numpy; numpy.save(sys.argv[4], numpy.ones((5, 2)))", "'a' do not sum to 1; apply a softmax"),
        ("import sys, numpy; numpy.save(sys.argv[4], numpy.full((5, 2), numpy.nan))", "do not sum to 1"),
        ("import sys, numpy; numpy.save(sys.argv[4], numpy.array([[2, -1]] * 5))", "do not sum to 1"),
        ("import sys, numpy; numpy.save(sys.argv[4], [[object()]], allow_pickle=True)", "not a .npy array"),
        ("import sys, numpy; numpy.savez(open(sys.argv[4], 'wb'), probs=numpy.ones((5, 2)))", "not a .npy array"),
        ("import sys, numpy; numpy.save(sys.argv[4], numpy.array([['a', 'b']] * 5))", "array of numbers"),
    ],
)
def test_a_script_that_fails_is_one_line(tmp_path: Path, script: str, complaint: str) -> None:
    with pytest.raises(UnderstudyError, match=complaint) as error:
        command(tmp_path, script).fit([IDS[0]], np.array([0]), 2)
    assert "\n" not in str(error.value)


STARTS_ANOTHER = """
import os, subprocess, sys, time
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open("pids.part", "w").write(f"{os.getpid()} {other.pid}")
os.rename("pids.part", "pids")
time.sleep(600)
"""


def wait_for_the_end_of_both(folder: Path) -> None:
    pids = [int(pid) for pid in (folder / "pids").read_text().split()]
    assert len(pids) == 2
    wait_until(lambda: not any(map(is_running, pids)))


def test_a_script_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    seconds = 1
    while not (tmp_path / "pids").exists():  # the script did not get that far
        seconds *= 2
        with pytest.raises(UnderstudyError, match=f"took longer than {seconds} s"):
            command(tmp_path, STARTS_ANOTHER, timeout=seconds).fit([IDS[0]], np.array([0]), 2)
    wait_for_the_end_of_both(tmp_path)


def test_an_interrupt_ends_the_script_too(tmp_path: Path) -> None:
    def interrupt() -> None:
        wait_until((tmp_path / "pids").exists)
        os.kill(os.getpid(), signal.SIGINT)

    learner = command(tmp_path, STARTS_ANOTHER)
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        learner.fit([IDS[0]], np.array([0]), 2)
    wait_for_the_end_of_both(tmp_path)


def test_a_script_may_talk_much_and_gets_no_answer(tmp_path: Path) -> None:
    script = "import sys; print('x' * 10_000_000); assert sys.stdin.read() == ''\n" + SCRIPT
    assert command(tmp_path, script).fit([IDS[0]], np.array([0]), 2, seed=1).predict_proba(IDS).shape == (5, 2)


def test_names_of_files_that_are_no_text_reach_the_script(tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9.jpg")
    script = "import sys; assert b'caf\\xe9.jpg' in open(sys.argv[1], 'rb').read()\n" + SCRIPT.replace(
        'encoding="utf-8"', 'encoding="utf-8", errors="surrogateescape"'
    )
    learner = command(tmp_path, script)
    learner = Command(learner.command, (*IDS, odd), CLASSES, tmp_path)
    assert learner.fit([odd], np.array([1]), 2, seed=1).predict_proba([odd]).argmax() == 1


def test_a_command_that_is_not_there_is_one_line() -> None:
    with pytest.raises(UnderstudyError, match="could not be started: No such file"):
        Command("no-such-program {labels} {predictions}", IDS, CLASSES).fit([IDS[0]], np.array([0]), 2)


def test_bad_calls_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match=r"must contain \{predictions\}"):
        Command("train {labels}", IDS, CLASSES)
    with pytest.raises(UnderstudyError, match="must be distinct; 'a' appears twice"):
        Command("train {labels} {predictions}", ("a", "a"), CLASSES)
    with pytest.raises(UnderstudyError, match="split into words"):
        Command("train '{labels} {predictions}", IDS, CLASSES)
    with pytest.raises(UnderstudyError, match="must be one line of text"):
        Command("train {labels} {predictions}", IDS, ("a", "b\nc"))
    with pytest.raises(UnderstudyError, match="does not exist"):
        Command("train {labels} {predictions}", IDS, CLASSES, tmp_path / "nowhere")
    learner = command(tmp_path, SCRIPT)
    with pytest.raises(UnderstudyError, match="labels must be integers"):
        learner.fit([IDS[0]], np.array([0.0]), 2)
    with pytest.raises(UnderstudyError, match="created with 2 classes, but 3"):
        learner.fit([IDS[0]], np.array([0]), 3)
    with pytest.raises(UnderstudyError, match="1 items need one label each"):
        learner.fit([IDS[0]], np.array([0, 1]), 2)
    with pytest.raises(UnderstudyError, match="labels must be 0 to 1"):
        learner.fit([IDS[0]], np.array([2]), 2)
    with pytest.raises(UnderstudyError, match="'new' is not among the items"):
        learner.fit([IDS[0]], np.array([0]), 2).predict_proba(["new"])
