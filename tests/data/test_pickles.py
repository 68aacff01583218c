"""Pickles as Python 2 wrote them, and as an attacker would."""

import os
import pickle
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.official import array, listed, number, python2, string
from understudy.data.datasets import pickles
from understudy.errors import UnderstudyError

PIXELS = np.arange(24, dtype=np.uint8).reshape(4, 6)


def test_arrays_lists_and_strings_come_out() -> None:
    content = python2({
        b"data": array(PIXELS), b"labels": listed(number(3), number(1)), b"batch_label": string(b"batch 1 of 5"),
    })  # fmt: skip
    found = pickles.read(content, "data_batch_1")
    assert (found["data"] == PIXELS).all()
    assert found["data"].dtype == np.uint8
    assert (found["labels"], found["batch_label"]) == ([3, 1], b"batch 1 of 5")
    by_python = pickle.loads(content, encoding="bytes")  # written above, so it may run
    assert (by_python[b"data"] == PIXELS).all()


@given(st.sampled_from([2, 3, 4]), st.lists(st.integers(1, 40), min_size=1, max_size=3))
def test_what_python_3_pickles_is_read_too(protocol: int, shape: list[int]) -> None:
    values = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    assert (pickles.read(pickle.dumps({"data": values}, protocol), "x")["data"] == values).all()


class Attack:
    """Touches a file when it is unpickled by the usual means."""

    def __init__(self, call: object, *arguments: object) -> None:
        self.reduced = call, arguments

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.reduced


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("module", ["os", "posix", "subprocess", "builtins"])
def test_nothing_it_asks_for_is_run(tmp_path: Path, module: str, protocol: int) -> None:
    marker = tmp_path / "ran"
    attack = {
        "os": Attack(os.mkdir, str(marker)),
        "posix": Attack(os.system, f"mkdir {marker}"),
        "subprocess": Attack(subprocess.check_call, ["mkdir", str(marker)]),
        "builtins": Attack(exec, f"import os; os.mkdir({str(marker)!r})"),
    }[module]
    content = pickle.dumps({"data": attack}, protocol)
    with pytest.raises(UnderstudyError, match=r"refused: it asks for .*; only the official files"):
        pickles.read(content, "data_batch_1")
    assert not marker.exists()
    pickle.loads(content)
    assert marker.exists()  # so the attack was a real one


@pytest.mark.parametrize(
    "program",
    [
        b"cnumpy.core.multiarray\n_reconstruct\n}b.",  # changing what is not its own
        b"cnumpy\ndtype\n}U\x06answerNsb.",
        b"}U\x01kc_codecs\nencode\n}U\x06answerNsbs.",
        b"}U\x01kc_codecs\nencode\n(X\x01\x00\x00\x00aX\x05\x00\x00\x00utf-8tRs.",
        b"cnumpy\nload\n.",
        b"cnumpy.core.multiarray\n_reconstruct.__globals__\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x10ndarray.__class__\x93.",
        b"cnumpy\nndarray\n)\x81.",
        b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x05\x00\x00\x00rot13tR.",
        b"\x82\x01.",  # an extension
        b"Pid\n.",  # something kept elsewhere
        b"\x80\x05\x8e\xff\xff\xff\xff\xff\xff\xff\x7fabc.",  # bytes of exabytes
        b"]r\x00\x00\x00\x00",  # no end
        b"",
        b"garbage",
        b"].",
    ],
)
def test_odd_programs_are_refused(program: bytes) -> None:
    with pytest.raises(UnderstudyError, match="x is refused: "):
        pickles.read(program, "x")
    assert not hasattr(pickles.RawArray, "answer")


@pytest.mark.parametrize("type_code", [b"O8", b"i8", b"S1", b"V1"])
def test_arrays_of_other_things_than_bytes_are_refused(type_code: bytes) -> None:
    with pytest.raises(UnderstudyError, match="not of unsigned bytes"):
        pickles.read(python2({b"data": array(PIXELS, type_code)}), "x")


def test_arrays_kept_by_columns_are_refused() -> None:
    with pytest.raises(UnderstudyError, match="row by row"):
        pickles.read(python2({b"data": array(PIXELS, in_columns=True)}), "x")


def test_a_memo_numbered_in_gigabytes_takes_no_room() -> None:
    assert pickles.read(b"\x80\x02}r\xff\xff\xff\x7f.", "x") == {}


def test_an_array_of_another_size_than_its_bytes_is_refused() -> None:
    content = python2({b"data": array(PIXELS)}).replace(struct.pack("<i", 6), struct.pack("<i", 7))
    with pytest.raises(UnderstudyError, match="24 bytes for an array of shape"):
        pickles.read(content, "x")


@given(st.lists(st.sampled_from([*b"}]()tsuebRoc0.12(NKUX\x81\x85\x86\x87\x89q\x00\x01h"]), max_size=60).map(bytes))
def test_noise_is_an_error_of_ours_or_a_dictionary(noise: bytes) -> None:
    with suppress(UnderstudyError):
        assert isinstance(pickles.read(b"\x80\x02" + noise, "x"), dict)
