"""DNS lookups: slow names of one owner do not delay other owners."""

import asyncio
import errno
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fleethook.outbound.resolver import SharedResolver
from tests.waiting import NET, until


class Names:
    """The system's resolver for ``localhost``; lookups of other names wait until the test ends them."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answered = threading.Event()

    def __call__(self, host: str, port: int, **rest: Any) -> Any:
        self.asked.append(host)
        if host != "localhost":
            assert self.answered.wait(NET)
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return socket.getaddrinfo(host, port, **rest)


@pytest.fixture
def names() -> Iterator[Names]:
    made = Names()
    yield made
    made.answered.set()


async def test_names_resolve_as_in_the_system() -> None:
    lookups = SharedResolver()
    found = await lookups.for_owner("ws1").resolve("127.0.0.1", 443)
    assert [(one["hostname"], one["host"], one["port"], one["family"]) for one in found] == [
        ("127.0.0.1", "127.0.0.1", 443, socket.AF_INET)
    ]


async def test_a_fixed_address_needs_no_lookup(names: Names) -> None:
    fixed = {("hook.ns.svc", 443): ("127.0.0.1", 8443), ("hook.ns.svc", 444): ("::1", 444)}
    resolver = SharedResolver(names, fixed=fixed).for_owner("ws1")
    found = [(await resolver.resolve(host, port))[0] for host, port in (("HOOK.ns.svc", 443), ("hook.ns.svc", 444))]
    assert [(one["hostname"], one["host"], one["port"], one["family"]) for one in found] == [
        ("HOOK.ns.svc", "127.0.0.1", 8443, socket.AF_INET), ("hook.ns.svc", "::1", 444, socket.AF_INET6),
    ]  # fmt: skip
    assert (await resolver.resolve("localhost", 443))[0]["host"] == "127.0.0.1"
    assert names.asked == ["localhost"]


async def test_slow_names_of_one_owner_do_not_delay_another(names: Names) -> None:
    lookups = SharedResolver(names)
    attacking = [asyncio.create_task(lookups.for_owner("ws2").resolve(f"slow{number}.test")) for number in range(100)]
    await until(lambda: len(names.asked) == 4)
    for task in attacking[:10]:
        task.cancel()
    await asyncio.wait(attacking[:10])
    assert (await lookups.for_owner("ws3").resolve("localhost"))[0]["host"] == "127.0.0.1"
    assert len(names.asked) == 5
    names.answered.set()
    failed = await asyncio.gather(*attacking[10:], return_exceptions=True)
    assert {type(error) for error in failed} == {OSError, socket.gaierror}
    assert {error.errno for error in failed if type(error) is OSError} == {errno.ENOBUFS}


def test_the_exit_of_the_process_does_not_wait_for_a_name_server() -> None:
    # The lookup never ends, so the process would not exit if it waited for the thread.
    code = """
import asyncio, threading
from fleethook.outbound.resolver import SharedResolver

asked, never = threading.Event(), threading.Event()

def hang(*_, **__):
    asked.set()
    never.wait()

async def main():
    task = asyncio.create_task(SharedResolver(hang).for_owner("ws1").resolve("slow.test"))
    await asyncio.to_thread(asked.wait)
    task.cancel()

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, timeout=NET)
    assert (done.returncode, done.stderr) == (0, b"")
