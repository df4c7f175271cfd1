"""A scripted resolver of names."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fleethook.engines.crds.download import dial
from tests.waiting import NET


class Names:
    """A resolver with addresses by name, and a record of lookups."""

    def __init__(self) -> None:
        self.addresses: dict[str, list[str]] = {}
        self.looked_up: list[str] = []
        self.hanging = 0
        """Number of lookups that hang."""
        self.released = threading.Event()

    def __call__(self, name: str, port: int, family: int, kind: int) -> list[Any]:
        assert kind == socket.SOCK_STREAM
        if name[0].isdigit() or ":" in name:
            return socket.getaddrinfo(name, port, family, kind)
        self.looked_up.append(name)
        if name.startswith("hanging."):
            self.hanging += 1
            self.released.wait(NET)
        if name not in self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "S3CR3T")
        return [info for address in self.addresses[name] for info in socket.getaddrinfo(address, port, 0, kind)]


@contextmanager
def naming(monkeypatch: pytest.MonkeyPatch, **addresses: list[str]) -> Iterator[Names]:
    """Have names, ``<name>.test`` each; ``hanging.test`` never ends within the block."""
    names = Names()
    names.addresses = {f"{name}.test": found for name, found in addresses.items()}
    monkeypatch.setattr(dial, "getaddrinfo", names)
    try:
        yield names
    finally:
        names.released.set()
