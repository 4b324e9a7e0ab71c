"""Hosts of their own for a test, as network namespaces on one bridge. Needs root, and a kernel that lets it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.flink.processes import wait_until
from tests.runners.round import Round

__all__ = ["Hosts", "hosts"]

_NAMES = ("runner", "client", "workers")


class Hosts:
    """`here`, where endpoint and journal are, and one host for each of runner, client and workers."""

    def __init__(self, prefix: str, net: str) -> None:
        self.prefix = prefix
        self._net = net
        self.here = f"{net}.1"

    def address(self, name: str) -> str:
        """Address of a host."""
        return f"{self._net}.{_NAMES.index(name) + 2}"

    def at(self, name: str) -> list[str]:
        """What to put in front of a command so that it runs on that host."""
        return ["ip", "netns", "exec", self.prefix + name]

    def forward(self, round_: Round, name: str, port: int, *, to: str) -> None:
        """On that host (or `here`), pass what comes to the port on to the same port of address `to`."""
        listen = self.here if name == "here" else "127.0.0.1"
        program = [sys.executable, "-m", "tests.runners.forward", listen, to, str(port)]
        group = f"forward-{name}-{port}"
        round_.start(group, program if name == "here" else [*self.at(name), *program])
        log = round_.folder / f"{group}.log"
        wait_until(lambda: log.exists() and "ready" in log.read_text(), 20, group)


@contextlib.contextmanager
def hosts() -> Iterator[Hosts]:
    """Makes the hosts, and removes them. Skips the test where that is not allowed."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and the program ip")
    prefix = f"ba{os.getpid() % 100_000}"
    found, bridge = Hosts(prefix, f"10.213.{os.getpid() % 250}"), f"{prefix}br"
    try:
        try:
            _make(found, bridge)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine makes no network namespaces: {error.stderr.decode().strip()}")
        yield found
    finally:
        _remove(found, bridge)


def _make(found: Hosts, bridge: str) -> None:
    _ip("link", "add", bridge, "type", "bridge")
    _ip("addr", "add", f"{found.here}/24", "dev", bridge)
    _ip("link", "set", bridge, "up")
    for place, name in enumerate(_NAMES):
        host, outside = found.prefix + name, f"{found.prefix}v{place}"
        _ip("netns", "add", host)
        _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", host)
        _ip("link", "set", outside, "master", bridge, "up")
        _ip("-n", host, "addr", "add", f"{found.address(name)}/24", "dev", "eth0")
        _ip("-n", host, "link", "set", "eth0", "up")
        _ip("-n", host, "link", "set", "lo", "up")


def _remove(found: Hosts, bridge: str) -> None:
    for name in _NAMES:
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("netns", "del", found.prefix + name)
    with contextlib.suppress(subprocess.CalledProcessError):
        _ip("link", "del", bridge)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)
