"""Connection pools: shared connections, the verification of servers, and the number of sessions."""

import asyncio
import base64
import errno
import socket
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.outbound.connection_pools import (
    STARTS_PER_TURN,
    CallSlots,
    FullError,
    PoolKey,
    Pools,
    Quotas,
    SharedResolver,
)
from fleethook.outbound.webhook_client import HookClient, Parties
from tests.faults.webhook_calls import LONG, endpoint
from tests.hook_server import RawHook, tls
from tests.hypothesis_profiles import examples
from tests.pki import certify, encode_key
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
from fleethook.outbound.connection_pools import SharedResolver

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


async def test_consecutive_calls_share_a_connection(client: HookClient, hook: RawHook) -> None:
    for path in ("/a", "/b", "/a"):
        await client.post(endpoint(hook, url=f"https://127.0.0.1:{hook.port}{path}"), b"{}", seconds=10)
    assert (len(hook.asked), hook.connections) == (3, 1)


async def test_owners_ca_bundles_and_server_names_do_not_share_connections(client: HookClient, hook: RawHook) -> None:
    more = base64.b64encode(b"a comment\n" + base64.b64decode(hook.ca_bundle)).decode()
    for where, owner in (
        (endpoint(hook), ""), (endpoint(hook), "root:a"), (endpoint(hook), "root:b"),
        (endpoint(hook, server_name="localhost"), "root:a"), (endpoint(hook, ca_bundle=more), "root:a"),
    ):  # fmt: skip
        for _ in range(2):
            await client.post(where, b"{}", seconds=10, parties=Parties(owner))
    assert (len(hook.asked), hook.connections) == (10, 5)


def create_fleet(directory: Path, version: ssl.TLSVersion) -> tuple[str, ssl.SSLContext]:
    """Return a bundle of two authorities with one subject and without key identifiers, and a server of the second."""
    old, new, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    authority = x509.BasicConstraints(ca=True, path_length=None)
    roots = [certify("ca", "ca", key, key, authority) for key in (old, new)]
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    any_usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE])
    chain = [certify("hook", "ca", own, new, names, any_usage), *(certify(f"{n}", "x", own, own) for n in range(4))]
    (directory / "server.pem").write_bytes(b"".join(chain) + encode_key(own))
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.minimum_version = served.maximum_version = version
    served.load_cert_chain(directory / "server.pem")
    return base64.b64encode(b"".join(roots)).decode(), served


VERSIONS: Final = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_server_that_only_go_accepts_is_called(
    client: HookClient, hook: RawHook, tmp_path: Path, *, version: ssl.TLSVersion
) -> None:
    """OpenSSL tries only the first of two roots of one subject, and refuses the usage."""
    bundle, hook.context = create_fleet(tmp_path, version)
    assert await client.post(endpoint(hook, ca_bundle=bundle), b"{}", seconds=LONG) == b"{}"
    assert (hook.connections, len(hook.asked)) == (1, 1)


async def test_idle_sessions_beyond_the_limit_are_closed(tmp_path: Path) -> None:
    _, ca_bundle = tls(tmp_path)
    pools = Pools(None, limit=2)

    def key(name: str, partition: str = "p") -> PoolKey:
        return PoolKey(partition, f"https://{name}", "", ca_bundle, guarded=False)

    async with pools.lease(key("used")) as used:
        for name in "abc":
            async with pools.lease(key(name)) as session:
                pass
        assert len(pools) == 2
        async with pools.lease(key("c")) as again, pools.lease(key("used")) as still:
            assert (again is session, still is used) == (True, True)
    await pools.close()
    assert used.closed
    assert session.closed


async def test_many_endpoints_of_one_owner_do_not_close_sessions_of_another(tmp_path: Path) -> None:
    _, ca_bundle = tls(tmp_path)
    pools = Pools(None, limit=3)

    def key(partition: str, number: int) -> PoolKey:
        return PoolKey(partition, f"https://h{number}", "", ca_bundle, guarded=False)

    async with pools.lease(key("ws3", 0)) as victims:
        pass
    for number in range(20):
        async with pools.lease(key("ws2", number)):
            pass
    async with pools.lease(key("ws3", 0)) as again:
        assert again is victims
    assert len(pools) == 3
    await pools.close()


class Calls:
    """Calls that the test ends."""

    def __init__(self, **quotas: int) -> None:
        self.slots = CallSlots(Quotas(**quotas))
        self.running: dict[asyncio.Task[None], tuple[str, str]] = {}
        self.tasks: list[asyncio.Task[None]] = []

    def begin(self, consumer: str, host: str = "e", *, seconds: float = NET) -> "asyncio.Task[None]":
        task = asyncio.create_task(self._run(consumer, host, seconds))
        self.tasks.append(task)
        return task

    async def _run(self, consumer: str, host: str, seconds: float) -> None:
        async with self.slots.hold(consumer, host, seconds=seconds):
            task = asyncio.current_task()
            assert task
            self.running[task] = (consumer, host)
            try:
                await asyncio.Event().wait()
            finally:
                del self.running[task]

    @property
    def consumers(self) -> dict[str, int]:
        return dict(Counter(consumer for consumer, _ in self.running.values()))

    async def settle(self) -> None:
        for _ in range(2 * len(self.tasks) + 10):
            await asyncio.sleep(0)

    async def end(self, task: "asyncio.Task[None]") -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self.settle()


@pytest.mark.parametrize(
    ("quotas", "limit"),
    [({"connections": 1}, "connections"), ({"calls": 1}, "calls"), ({"total": 1}, "total")],
)
async def test_a_call_without_a_slot_in_time_fails_with_its_limit(quotas: dict[str, int], limit: str) -> None:
    calls = Calls(**quotas)
    calls.begin("ws2")
    await calls.settle()
    with pytest.raises(FullError) as raised:
        await calls.begin("ws2", seconds=0.01)
    assert raised.value.limit == limit
    assert calls.slots.refused[limit] == 1
    assert calls.slots.queued == 0


async def test_waiting_calls_of_a_consumer_are_limited() -> None:
    calls = Calls(calls=2)
    begun = [calls.begin("ws2") for _ in range(2 + 16 + 3)]
    await calls.settle()
    assert [type(task.exception()) for task in begun if task.done()] == [FullError] * 3
    assert calls.slots.queued == 16


async def test_a_slot_granted_to_a_cancelled_call_is_released() -> None:
    calls = Calls(connections=1)
    first, second = calls.begin("ws2"), calls.begin("ws2")
    await calls.settle()
    first.cancel()
    while calls.slots.queued:
        await asyncio.sleep(0)
    assert (calls.slots.under_way, calls.running) == (1, {}), "it is granted, and the call does not know yet"
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert (calls.slots.under_way, calls.slots._slots._lanes) == (0, {})


steps = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.sampled_from("abc"), st.sampled_from("ef")),
        st.tuples(st.just("end"), st.integers(0, 20), st.just("")),
        st.tuples(st.just("turn"), st.just(""), st.just("")),
        st.tuples(st.just("tick"), st.just(""), st.just("")),
    ),
    max_size=40,
)


@settings(max_examples=examples(200))
@given(steps, st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))
def test_quotas_hold_and_no_call_waits_without_reason(made: Any, connections: int, most: int, total: int) -> None:
    async def run() -> None:
        calls = Calls(connections=connections, calls=most, total=total)
        for action, what, host in made:
            if action == "begin":
                calls.begin(what, host)
            elif action == "end" and what < len(calls.tasks):
                calls.tasks[what].cancel()
            elif action == "turn":
                await calls.settle()
            elif action == "tick":
                await asyncio.sleep(0)
            _check_bounds(calls, connections, most, total)
        await calls.settle()
        _check_bounds(calls, connections, most, total)
        _check_no_slot_is_free(calls, connections, most, total)
        for task in calls.tasks:
            task.cancel()
        await asyncio.gather(*calls.tasks, return_exceptions=True)
        assert (calls.slots._slots._lanes, calls.slots.under_way, calls.slots.queued) == ({}, 0, 0)

    asyncio.run(run())


def _check_bounds(calls: Calls, connections: int, most: int, total: int) -> None:
    assert all(count <= connections for count in Counter(calls.running.values()).values())
    assert all(count <= most for count in calls.consumers.values())
    assert len(calls.running) <= 2 * total


def _check_no_slot_is_free(calls: Calls, connections: int, most: int, total: int) -> None:
    for consumer, state in calls.slots._slots._lanes.items():
        count = calls.consumers.get(consumer, 0)
        for host in state.waiting:
            full = list(calls.running.values()).count((consumer, str(host))) >= connections or count >= most
            assert full or len(calls.running) >= (total if count else 2 * total)


async def test_retries_and_new_calls_share_the_starts_of_an_iteration() -> None:
    slots = CallSlots(Quotas())
    turns: list[int] = []
    turn = 0

    async def repeat() -> None:
        await slots.take_turn()
        turns.append(turn)

    tasks = [asyncio.create_task(repeat()) for _ in range(3 * STARTS_PER_TURN)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        turn += 1
    assert max(Counter(turns).values()) <= STARTS_PER_TURN
