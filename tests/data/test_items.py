"""Items are read and decoded one at a time, by row, whatever they are kept in."""

import io
import os
import pickle
import socket
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from understudy import UnderstudyError
from understudy.data.faults import ItemFault
from understudy.data.items import (
    ArrayImages,
    ImageFiles,
    Items,
    RawItems,
    StoredImages,
    Texts,
    content_of,
    make_printable,
)

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), dtype=np.uint8)


def png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


class Cells:
    """What a table gives for a row."""

    def __init__(self, *cells: object) -> None:
        self.cells = cells

    def __call__(self, row: int) -> object:
        return self.cells[row]


def files(folder: Path) -> ImageFiles:
    paths = [folder / f"{row}.png" for row in range(3)]
    for path, pixels in zip(paths, PIXELS, strict=True):
        path.write_bytes(png(pixels))
    return ImageFiles(paths)


def stored(folder: Path) -> StoredImages:
    (folder / "on disk").write_bytes(png(PIXELS[2]))
    cells = Cells(png(PIXELS[0]), {"bytes": png(PIXELS[1])}, {"bytes": None, "path": str(folder / "on disk")})
    return StoredImages(cells, ["a", "b", "c"])


@pytest.fixture(params=["files", "array", "table"])
def images(request: pytest.FixtureRequest, tmp_path: Path) -> Items:
    if request.param == "array":
        return ArrayImages(PIXELS)
    return files(tmp_path) if request.param == "files" else stored(tmp_path)


def shown(items: Items, row: int) -> np.ndarray:
    return np.asarray(items.decode(row, items.read(row))[0])


def test_a_row_gives_its_own_image(images: Items) -> None:
    assert images.kind == "image"
    assert len(images) == 3
    for row in range(3):
        assert np.array_equal(shown(images, row), PIXELS[row])


def test_rows_are_taken_in_the_order_asked_for_again_and_again(images: Items) -> None:
    taken = images.take([2, 0, 1]).take([1, 0])
    assert len(taken) == 2
    assert np.array_equal(shown(taken, 0), PIXELS[0])
    assert np.array_equal(shown(taken, 1), PIXELS[2])
    assert len(images.take([])) == 0


def test_items_can_be_sent_to_another_process(images: Items) -> None:
    assert np.array_equal(shown(pickle.loads(pickle.dumps(images)), 1), PIXELS[1])


def test_a_file_that_is_gone_is_a_fault_by_name(tmp_path: Path) -> None:
    items = ImageFiles([tmp_path / "gone.png"], ["gone.png"])
    with pytest.raises(ItemFault, match=r"^gone.png: no such file; put it back"):
        items.read(0)
    assert items.stamp(0) is None


def test_a_file_that_cannot_be_read_is_a_fault_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(ItemFault, match=r"folder.png: cannot be read \(Is a directory\); check"):
        ImageFiles([tmp_path / "folder.png"]).read(0)
    with pytest.raises(ItemFault, match=r"cannot be read \(embedded null"):
        ImageFiles([Path("a\0b.png")]).read(0)


def test_a_pipe_a_device_or_a_socket_is_a_fault_and_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for name in ("pipe", "/dev/zero"):
            with pytest.raises(ItemFault, match=f"^{name}: a pipe or a device, not a file; put a file there"):
                ImageFiles([Path(name)]).read(0)
        with pytest.raises(ItemFault, match=r"^socket: cannot be read \("):
            ImageFiles([Path("socket")]).read(0)


def test_a_file_that_is_far_too_large_is_a_fault_and_not_read(tmp_path: Path) -> None:
    with (tmp_path / "x.png").open("wb") as file:
        file.truncate(2**30 + 1)
    with pytest.raises(ItemFault, match=r"^x: 1,073,741,825 bytes, more than 1,073,741,824; make it smaller"):
        ImageFiles([tmp_path / "x.png"], ["x"]).read(0)


def test_no_memory_for_an_item_is_its_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    items = files(tmp_path)
    content = items.read(0)
    with monkeypatch.context() as patched:
        patched.setattr("understudy.data.items.os.fstat", no_memory)
        with pytest.raises(ItemFault, match=r"0\.png: no memory to read it; make it smaller, or use fewer workers"):
            items.read(0)
    with monkeypatch.context() as patched:
        patched.setattr("understudy.data.images.in_rgb", no_memory)
        with pytest.raises(ItemFault, match=r"0\.png: no memory to decode it; make it smaller"):
            items.decode(0, content)
    with pytest.raises(ItemFault, match=r"^a: no memory to read it"):
        StoredImages(no_memory, ["a"]).read(0)


def test_the_stamp_of_a_file_changes_when_the_file_does(tmp_path: Path) -> None:
    items = files(tmp_path)
    before = items.stamp(0)
    assert before is not None
    assert before[0] == len(items.read(0))
    items.paths[0].write_bytes(b"longer or shorter")
    assert items.stamp(0) != before


def test_broken_files_are_named_as_the_caller_names_them(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"no image")
    items = ImageFiles([tmp_path / "x.png"], ["cats/x.png"])
    with pytest.raises(ItemFault, match=r"^cats/x.png: none of the image formats"):
        items.decode(0, items.read(0))


@pytest.mark.parametrize("shape", [(2, 4, 5), (2, 4, 5, 4)])
def test_arrays_may_be_grey_or_have_transparency(shape: tuple[int, ...]) -> None:
    clear = ArrayImages(np.zeros(shape, np.uint8))
    assert shown(clear, 1).tolist() == np.full((4, 5, 3), 255 if shape[3:] else 0).tolist()


def test_the_bytes_of_an_image_in_an_array_tell_its_shape() -> None:
    flat, square = np.zeros((1, 2, 8), np.uint8), np.zeros((1, 4, 4), np.uint8)
    assert ArrayImages(flat).read(0) != ArrayImages(square).read(0)


@pytest.mark.parametrize(
    "pixels",
    [np.zeros((2, 4, 4)), np.zeros((2, 4), np.uint8), np.zeros((2, 3, 8, 8), np.uint8), np.zeros((2, 0, 4), np.uint8)],
)
def test_arrays_that_are_no_images_are_refused(pixels: np.ndarray) -> None:
    with pytest.raises(UnderstudyError, match="images in an array must"):
        ArrayImages(pixels)


@pytest.mark.parametrize("cell", [None, {"bytes": None, "path": None}, {}, 3, "text"])
def test_a_cell_without_an_image_is_a_fault(cell: object) -> None:
    with pytest.raises(ItemFault, match=r"^row 0: no image in its cell"):
        StoredImages(Cells(cell), ["row 0"]).read(0)


def test_a_cell_leads_out_of_its_folder_only_where_it_may(tmp_path: Path) -> None:
    inside, secret = tmp_path / "table", tmp_path / "secret.png"
    (inside / "deep").mkdir(parents=True)
    for path in (secret, inside / "own.png"):
        path.write_bytes(path.name.encode())
    (inside / "link.png").symlink_to(secret)
    (inside / "deep" / "beside.png").symlink_to("../own.png")
    paths = [str(secret), "../secret.png", "link.png", "a\0b", "own.png", "deep/../own.png", "deep/beside.png"]
    free = StoredImages([{"bytes": None, "path": path} for path in paths].__getitem__, paths, folder=inside)
    assert free.read(0) == secret.read_bytes()
    confined = free.confined_to(inside).take(range(len(paths)))
    for row in range(3):
        with pytest.raises(ItemFault, match="its cell names a file outside of"):
            confined.read(row)
    with pytest.raises(ItemFault, match="cannot be read"):
        confined.read(3)
    for row in range(4, 7):
        assert confined.read(row) == (inside / "own.png").read_bytes()


def test_a_link_is_not_followed_where_it_must_not_be(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to("real")
    assert content_of(tmp_path / "link", "link") == b"x"
    assert content_of(tmp_path / "real", "real", follow=False) == b"x"
    with pytest.raises(ItemFault, match=r"^link: cannot be read"):
        content_of(tmp_path / "link", "link", follow=False)


def test_texts_come_back_as_they_are() -> None:
    texts = Texts(["one", "zwölf Boxkämpfer\n", "\N{SNOWMAN}"])
    assert texts.kind == "text"
    assert [texts.decode(row, texts.read(row)) for row in range(3)] == [(text, ()) for text in texts.texts]
    assert texts.take([2]).texts == ("\N{SNOWMAN}",)
    assert texts.take([2]).names == ("row 2",)


@pytest.mark.parametrize("text", ["", "  \n\t", "\u2003"])
def test_a_text_of_nothing_but_space_is_a_fault(text: str) -> None:
    texts = Texts([text], ["line 7"])
    with pytest.raises(ItemFault, match=r"^line 7: the text is empty"):
        texts.decode(0, texts.read(0))


def test_a_text_with_half_a_character_is_readable_and_differs_from_others() -> None:
    texts = Texts(["a\ud800b", "a\udfffb"])
    text, _ = texts.decode(0, texts.read(0))
    assert text.startswith("a\N{REPLACEMENT CHARACTER}")
    assert text.encode()
    assert texts.read(0) != texts.read(1)


def test_names_are_made_printable() -> None:
    assert make_printable("Käse.jpg") == "Käse.jpg"
    assert make_printable("K\udce4se.jpg") == "K\\udce4se.jpg"
    assert make_printable("a\nb\x1b[2Jc\x7f\x9b\u2028\u202e") == "a\\nb\\x1b[2Jc\\x7f\\x9b\\u2028\\u202e"


@pytest.mark.parametrize("name", ["می\u200cخواهم", "\N{MAN}\u200d\N{WOMAN}", "a\u3000b", "C:\\n"])
def test_names_of_other_languages_stay_as_they_are(name: str) -> None:
    assert make_printable(name) == name


def test_items_are_a_sequence_that_reads_each_when_it_is_asked_for(tmp_path: Path) -> None:
    paths = [tmp_path / f"{row}.png" for row in range(4)]
    for row, path in enumerate(paths):
        Image.new("L", (2, 2), 10 * row).save(path)
    raw = RawItems(ImageFiles(paths))
    paths[1].unlink()
    assert len(raw) == 4
    part = raw[np.array([3, 1, 2])]
    shades = [raw[-1], raw[2:][0], part[2], part[0]]
    assert [np.asarray(image).max() for image in shades] == [30, 20, 20, 30]
    assert list(RawItems(Texts(["a", "b"]))) == ["a", "b"]
    with pytest.raises(ItemFault, match="no such file"):
        part[1]
    with pytest.raises(IndexError):
        raw[4]
