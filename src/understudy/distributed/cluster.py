"""The Ray cluster: joined where it runs, or started on this machine. Needs the extra `cluster`."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from understudy.errors import UnderstudyError, UsageError
from understudy.experiments.grid import default_jobs
from understudy.messages import install_command

SECONDS_TO_CONNECT: Final = 5.0  # within which the head of a cluster must accept a connection
SECONDS_WITHOUT_HEAD: Final = "604800"
ADDRESS_VARIABLE: Final = "RAY_ADDRESS"  # read by Ray itself to find its cluster


def ray_library() -> ModuleType:
    try:
        import ray
    except ImportError as error:
        raise UnderstudyError(
            f"the engine ray needs an extra; install it with: {install_command('cluster')}"
        ) from error
    return ray


@contextmanager
def joined_cluster(address: str | None = None, jobs: int | None = None) -> Iterator[None]:
    """Join or start a Ray cluster within a `with` block; one that was joined before stays joined."""
    ray = ray_library()
    if ray.is_initialized():
        if address is not None:
            raise UnderstudyError(
                "this process is already connected to a Ray cluster; leave the address out, or call ray.shutdown()"
            )
        with silence_ray():
            yield
        return
    join_cluster(address or os.environ.get(ADDRESS_VARIABLE) or None, jobs)
    try:
        with silence_ray():
            yield
    finally:
        ray.shutdown()


def join_cluster(address: str | None, jobs: int | None) -> None:
    """Connect to a cluster, or start one on this machine, without output."""
    ray = ray_library()
    if address is not None and "://" in address:
        raise UsageError(
            f"the address of a Ray cluster must be HOST:PORT of its head (usually port 6379) or auto; got {address}. "
            "Join it from one of its machines"
        )
    own: dict[str, Any] = {"num_cpus": jobs or default_jobs("cpu"), "include_dashboard": False}
    # A cluster that is started here lets nobody in without the token in ~/.ray: Ray's own default since 2.60.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    try:
        if address is not None:
            # Ray would end this process a minute after it lost the head: whoever asks next is told in a line instead.
            os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", SECONDS_WITHOUT_HEAD)
            if address != "auto":
                check_reachable(address)
        ray.init(
            address=address or "local",  # None would join any cluster that happens to be running on this machine
            log_to_driver=False,
            logging_level=logging.ERROR,
            **({} if address else own),
        )
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        where = f"be joined at {address}" if address else "be started here"
        first = next(iter(str(error).splitlines()), type(error).__name__)
        remedy = "is it running, and is this one of its machines? ray status" if address else "try --engine local"
        raise UnderstudyError(f"a Ray cluster could not {where} ({first}); {remedy}") from error


def check_reachable(address: str) -> None:
    """Raise OSError or ValueError if nothing listens there. Ray itself would retry for many minutes."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT).close()


@contextmanager
def silence_ray() -> Iterator[None]:
    """Keep Ray from printing every worker failure to the terminal, as it does even with logging off."""
    worker = getattr(ray_library(), "_private").worker  # noqa: B009  # there is no public API
    before = getattr(worker, "_worker_logs_enabled", True)
    worker._worker_logs_enabled = False
    try:
        yield
    finally:
        worker._worker_logs_enabled = before
