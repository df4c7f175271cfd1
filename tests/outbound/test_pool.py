"""Connection pools: shared connections, and the number of sessions."""

import base64
from pathlib import Path

from app.outbound.client import HookClient, Parties
from app.outbound.pool import PoolKey, Pools
from tests.faults.webhook_calls import endpoint
from tests.hook_server import RawHook, tls


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
