"""Connection pools: shared connections, the verification of servers, and the number of sessions."""

import asyncio
import base64
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from fleethook.outbound.calls_and_retries import HookClient, Parties
from fleethook.outbound.connection_pools_and_dns import PoolKey, Pools, SharedResolver
from tests.faults.webhook_calls import LONG, endpoint
from tests.hook_server import RawHook, tls
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
    await until(lambda: len(names.asked) == 32)
    for task in attacking[:40]:
        task.cancel()
    await asyncio.wait(attacking[:40])
    assert (await lookups.for_owner("ws3").resolve("localhost"))[0]["host"] == "127.0.0.1"
    assert len(names.asked) == 33
    names.answered.set()
    failed = await asyncio.gather(*attacking[40:], return_exceptions=True)
    assert {type(error) for error in failed} == {socket.gaierror}
    assert len(names.asked) == 93, "a lookup that was cancelled before its turn is not made"


def test_the_exit_of_the_process_does_not_wait_for_a_name_server() -> None:
    # The lookup never ends, so the process would not exit if it waited for the thread.
    code = """
import asyncio, threading
from fleethook.outbound.connection_pools_and_dns import SharedResolver

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
