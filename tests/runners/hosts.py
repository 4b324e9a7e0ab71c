"""Hosts of their own for a test, as network namespaces on one bridge. Needs root, and a kernel that lets it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

from tests.flink.processes import wait_until
from tests.runners.round import Round

__all__ = ["Hosts", "can_make_hosts", "hosts"]

_NET = "10.213.77"
_NAMES = ("runner", "client", "workers")


class Hosts:
    """`here`, where endpoint and journal are, and one host for each of runner, client and workers."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.here = f"{_NET}.1"

    def address(self, name: str) -> str:
        """Address of a host."""
        return f"{_NET}.{_NAMES.index(name) + 2}"

    def at(self, name: str) -> list[str]:
        """What to put in front of a command so that it runs on that host."""
        return ["ip", "netns", "exec", self._prefix + name]

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
    """Makes the hosts, and removes them. Raises `CalledProcessError` where that is not allowed."""
    prefix = f"ba{os.getpid() % 100_000}"
    found, bridge = Hosts(prefix), f"{prefix}br"
    try:
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{found.here}/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for place, name in enumerate(_NAMES):
            host, outside = prefix + name, f"{prefix}v{place}"
            _ip("netns", "add", host)
            _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", host)
            _ip("link", "set", outside, "master", bridge, "up")
            _ip("-n", host, "addr", "add", f"{found.address(name)}/24", "dev", "eth0")
            _ip("-n", host, "link", "set", "eth0", "up")
            _ip("-n", host, "link", "set", "lo", "up")
        yield found
    finally:
        for name in _NAMES:
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "del", prefix + name)
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "del", bridge)


def can_make_hosts() -> bool:
    """Whether this machine lets us make them."""
    if shutil.which("ip") is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return False
    try:
        with hosts():
            return True
    except subprocess.CalledProcessError:
        return False


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)
