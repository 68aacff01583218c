"""Certificates that tests make for themselves, with the openssl command."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.leaving_out import leave_out
from understudy.web.certificates import Certificate


def make_certificate(folder: Path, name: str = "own", password: str | None = None) -> Certificate:
    """A certificate for 127.0.0.1 that signs itself, with its key."""
    if shutil.which("openssl") is None:
        leave_out("openssl is NOT INSTALLED: HTTPS was NOT TESTED")
    folder.mkdir(exist_ok=True)
    certfile, keyfile = folder / f"{name}.pem", folder / f"{name}.key"
    lock = ["-passout", "env:KEY_PASSWORD"] if password is not None else ["-nodes"]
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", *lock, "-days", "30",
        "-keyout", str(keyfile), "-out", str(certfile), "-subj", f"/CN={name}",
        "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
    ]  # fmt: skip
    environment = os.environ | {"KEY_PASSWORD": password or ""}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return Certificate(certfile, keyfile, password)
