"""Connection pools: shared connections, and the number of sessions."""

import base64
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from app.outbound.client import HookClient, Parties
from app.outbound.credential import Credential
from app.outbound.pool import PoolKey, Pools
from tests.faults.webhook_calls import LONG, catch_call_error, endpoint
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


def issue(subject: str, issuer: str, key: Any, signer: Any, *extensions: x509.ExtensionType) -> bytes:
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, one)]) for one in (issuer, subject)]
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(*names, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
    for one in extensions:
        builder = builder.add_extension(one, critical=True)
    return builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)


async def test_a_server_that_only_go_accepts_gets_the_client_certificate(client: HookClient, hook: RawHook) -> None:
    """The bundle has two authorities of one subject without key identifiers; OpenSSL tries the first one only."""
    old, new, own, caller = (ec.generate_private_key(ec.SECP256R1()) for _ in range(4))
    authority = x509.BasicConstraints(ca=True, path_length=None)
    roots = [issue("ca", "ca", key, key, authority) for key in (old, new)]
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    pem = [key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) for key in (own, caller)]
    identity = issue("caller", "caller", caller, caller)
    hook.load(issue("hook", "ca", own, new, names), pem[0])
    hook.context.load_verify_locations(cadata=identity.decode())
    hook.context.verify_mode, hook.context.verify_flags = ssl.CERT_REQUIRED, ssl.VERIFY_X509_PARTIAL_CHAIN
    credential = Credential(certificate_pem=identity, key_pem=pem[1])
    both, one = (base64.b64encode(b"".join(some)).decode() for some in (roots, roots[:1]))
    assert await client.post(endpoint(hook, ca_bundle=both), b"{}", seconds=LONG, credential=credential) == b"{}"
    assert (hook.connections, len(hook.asked)) == (3, 1)
    error = await catch_call_error(client, endpoint(hook, ca_bundle=one), credential=credential)
    assert "x509: certificate signed by unknown authority" in str(error)
    assert len(hook.asked) == 1


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
