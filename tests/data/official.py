"""Small data sets in the exact formats of the official files, byte by byte."""

import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

PER_BATCH = 3
PLANES = np.random.default_rng(0).integers(0, 256, (6, PER_BATCH, 3, 32, 32), dtype=np.uint8)  # batch 5 is the test
LABELS = np.arange(6 * PER_BATCH, dtype=np.uint8).reshape(6, PER_BATCH) % 10
FINE_NAMES = [f"fine_{i}" for i in range(100)]
WNIDS = ("n02124075", "n01443537", "n04067472")  # not sorted, as in the official file
WORDS = "n00001740\tentity\nn01443537\tgoldfish, Carassius auratus\nn02124075\tEgyptian cat\n"


def tar_bytes(*entries: tarfile.TarInfo | tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for entry in entries:
            info, content = (
                (entry, b"") if isinstance(entry, tarfile.TarInfo) else (tarfile.TarInfo(entry[0]), entry[1])
            )
            info.size = info.size or len(content)
            tar.addfile(info, io.BytesIO(content) if content else None)
    return buffer.getvalue()


def packed(path: Path, files: dict[str, bytes]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        content = tar_bytes(*files.items())
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def string(content: bytes) -> bytes:
    """What Python 2 wrote for a str."""
    short = len(content) < 256
    return (b"U" + bytes([len(content)]) if short else b"T" + struct.pack("<i", len(content))) + content


def number(value: int) -> bytes:
    return b"K" + bytes([value])


def array(values: np.ndarray, type_code: bytes = b"u1", in_columns: bool = False) -> bytes:
    """An array of bytes in the opcodes of the official files: numpy 1 under Python 2, protocol 2."""
    made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + number(0) + b"\x85" + string(b"b") + b"\x87R"
    shape = b"(" + b"".join(b"J" + struct.pack("<i", size) for size in values.shape) + b"t"
    kind = b"cnumpy\ndtype\n" + string(type_code) + number(0) + number(1) + b"\x87R"
    kind += b"(" + number(3) + string(b"|") + b"NNN" + b"J\xff\xff\xff\xff" * 2 + number(0) + b"tb"
    return (
        made + b"(" + number(1) + shape + kind + (b"\x88" if in_columns else b"\x89") + string(values.tobytes()) + b"tb"
    )


def listed(*values: bytes) -> bytes:
    return b"](" + b"".join(values) + b"e"


def python2(entries: Mapping[bytes, bytes]) -> bytes:
    """A dictionary as protocol 2 of Python 2 writes it."""
    return b"\x80\x02}(" + b"".join(string(key) + value for key, value in entries.items()) + b"u."


def cifar10(kind: str) -> dict[str, bytes]:
    """The six batches as the archive names them."""
    files = {}
    for i, (planes, labels) in enumerate(zip(PLANES, LABELS, strict=True)):
        name = f"data_batch_{i + 1}" if i < 5 else "test_batch"
        pixels = planes.reshape(PER_BATCH, 3072)
        if kind == "binary":
            files[f"cifar-10-batches-bin/{name}.bin"] = np.hstack([labels[:, None], pixels]).tobytes()
        else:
            files[f"cifar-10-batches-py/{name}"] = python2({
                b"batch_label": string(name.encode()),
                b"labels": listed(*(number(int(label)) for label in labels)),
                b"data": array(pixels),
                b"filenames": listed(*(string(b"leptodactylus_s_%06d.png" % j) for j in range(PER_BATCH))),
            })  # fmt: skip
    return files


def cifar100(kind: str) -> dict[str, bytes]:
    files = {}
    for part, planes in (("train", PLANES[0]), ("test", PLANES[5])):
        pixels, fine, coarse = planes.reshape(PER_BATCH, 3072), [99, 0, 42], [19, 0, 7]
        if kind == "binary":
            labels = np.array([coarse, fine], np.uint8).T
            files[f"cifar-100-binary/{part}.bin"] = np.hstack([labels, pixels]).tobytes()
        else:
            files[f"cifar-100-python/{part}"] = python2({
                b"data": array(pixels),
                b"fine_labels": listed(*map(number, fine)),
                b"coarse_labels": listed(*map(number, coarse)),
            })  # fmt: skip
    if kind == "binary":
        files["cifar-100-binary/fine_label_names.txt"] = "\n".join(FINE_NAMES).encode() + b"\n"
        files["cifar-100-binary/coarse_label_names.txt"] = b"animals\n"
    else:
        files["cifar-100-python/meta"] = python2(
            {b"fine_label_names": listed(*(string(name.encode()) for name in FINE_NAMES))}
        )
    return files


def jpeg(value: int, grey: bool = False) -> bytes:
    buffer = io.BytesIO()
    Image.new("L" if grey else "RGB", (64, 64), value if grey else (value, 0, 0)).save(buffer, "JPEG")
    return buffer.getvalue()


def tiny_imagenet() -> dict[str, bytes]:
    files = {"wnids.txt": "\n".join(WNIDS).encode() + b"\n", "words.txt": WORDS.encode()}
    for i, wnid in enumerate(WNIDS):
        files[f"train/{wnid}/{wnid}_boxes.txt"] = f"{wnid}_0.JPEG\t0\t10\t63\t58\n".encode()
        for j in range(4):
            files[f"train/{wnid}/images/{wnid}_{j}.JPEG"] = jpeg(40 * i + j, grey=j == 3)
    files["val/val_annotations.txt"] = b"val_0.JPEG\tn04067472\t0\t32\t44\t62\nval_1.JPEG\tn01443537\t52\t55\t57\t59\n"
    files |= {f"val/images/val_{j}.JPEG": jpeg(200 + j) for j in range(2)}
    return files | {"test/images/test_0.JPEG": jpeg(0)}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def pack_cifar(folder: Path, name: str, kind: str, files: dict[str, bytes]) -> Path:
    path = folder / f"{name.replace('cifar', 'cifar-')}-{kind}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for member, content in files.items():
            info = tarfile.TarInfo(member)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path
