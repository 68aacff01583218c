import numpy as np
import pytest

from understudy.data.encoders import make_encoder
from understudy.errors import UnderstudyError

TEXTS = ["The cat sleeps on the sofa", "A cat slept on a sofa", "Interest rates rose again in March", "银行 利率", "!"]


def rows(texts: list[str], name: str = "words") -> np.ndarray:
    encoder = make_encoder(name)
    return encoder.encode([encoder.prepare(text) for text in texts])


def test_texts_that_share_words_lie_nearer_than_texts_that_do_not() -> None:
    got = rows(TEXTS)
    assert got.shape == (5, 256)
    assert got.dtype == np.float32
    assert got[0] @ got[1] > 0.3 > abs(got[0] @ got[2])


def test_a_row_depends_on_its_text_alone() -> None:
    together = rows(TEXTS)
    np.testing.assert_array_equal(together, np.vstack([rows([text]) for text in TEXTS]))
    np.testing.assert_array_equal(together[::-1], rows(TEXTS[::-1]))


def test_rows_have_length_one_whatever_the_text() -> None:
    lengths = np.linalg.norm(rows([*TEXTS, "word " * 50_000, "\ud800", "a"]), axis=1)
    np.testing.assert_allclose(lengths, 1.0, atol=1e-6)


def test_a_text_without_letters_still_has_finite_features() -> None:
    assert np.isfinite(rows(["", "   ", "\x00", "?!"])).all()


def test_the_numbers_stay_the_same_for_ever() -> None:
    # Features are kept by content and identity; other numbers under the same identity would mix two kinds.
    got = rows(["the cat"])[0]
    assert make_encoder("words").identity == "0461fd50daf323ba08cf637e6968113b"
    assert int(np.argmax(np.abs(got))) == 112
    np.testing.assert_allclose(got[[112, 101, 105, 110]], [0.345594, -0.258277, 0.258277, -0.258277], atol=1e-6)


def test_a_projection_keeps_how_near_texts_are() -> None:
    words = [f"word{i}" for i in range(400)]
    drawn = np.random.default_rng(0)
    texts = [" ".join(drawn.choice(words, 40)) for _ in range(30)]
    small, large = rows(texts), rows(texts, "words?size=4096")
    assert np.abs(small @ small.T - large @ large.T).max() < 0.35
    assert np.abs(small @ small.T - large @ large.T).mean() < 0.06


@pytest.mark.parametrize("wrong", ["words:x", "words@w.pt", "words?colour=1", "words?size=0", "words?size=many"])
def test_what_words_do_not_take_is_refused(wrong: str) -> None:
    with pytest.raises(UnderstudyError, match=r"write words|there is size|from 16 to 4096"):
        make_encoder(wrong)
