"""Applies the CRDs of a cached tarball to the API server of an instance, for the controller.

The namespace of the instance controls both the server (by its Secret) and the tarball. Neither may delay other
namespaces: a process with limits reads the tarball, responses are limited in size, and namespaces share the slots.
"""

import asyncio
import functools
import hashlib
from typing import Final

import msgspec

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.connection import Connection
from fleethook.cluster.store import ObjectKey
from fleethook.engines.crds.apply.crd_apply import Applied, apply, check_stored_versions, wait_established
from fleethook.engines.crds.apply.crd_patches import build_values, find_foreign_webhooks
from fleethook.engines.crds.apply.instance_server import read_target
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.controller.verifier import Verifier
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.fetch import Fetched
from fleethook.fairness.slots import Limits, Slots
from fleethook.model.json import JSONObject

AT_ONCE: Final = 24
RESERVED: Final = 20
"""Slots for tarballs within the limits of a first try (`fleethook.engines.crds.controller.verifier`).

Each holds the tarball's JSON (1 MiB for a release, at most 6 MiB), one decoded CRD and one response. A namespace has at
most 4 of them."""
LARGE_AT_ONCE: Final = 2
LARGE_RESERVED: Final = 1
"""Slots for larger tarballs; each takes up to four times as much memory."""
MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024
"""Limit of one CRD: kube-apiserver accepts at most 3 MiB."""
MAX_APPLY_SECONDS: Final = 120.0
PROBE_SECONDS: Final = 10.0
ESTABLISHED_SECONDS: Final = 60.0


class Applier:
    """Applies CRDs, to a limited number of servers at once."""

    def __init__(self, host: Connection, cache: Cache, verifier: Verifier) -> None:
        """Create the applier.

        Args:
            host: Connection to the cluster that has the instances.
            cache: Cache of the tarballs.
            verifier: Reads tarballs in processes with limits.
        """
        self._host: Final = host
        self._cache: Final = cache
        self._verifier: Final = verifier
        self._slots: Final = Slots(Limits(AT_ONCE, reserved=RESERVED, long=max(1, AT_ONCE - 1)))
        self._large: Final = Slots(Limits(LARGE_AT_ONCE, reserved=LARGE_RESERVED, long=max(1, LARGE_AT_ONCE - 1)))

    async def apply(self, key: ObjectKey, karmada: JSONObject, fetched: Fetched) -> list[Applied]:
        """Apply the CRDs of a tarball to an instance's API server and wait until they are established.

        Args:
            key: Key of the instance; namespaces take turns.
            karmada: The instance.
            fetched: The tarball.

        Raises:
            CRDsError: USAGE, NETWORK, HTTP as `read_target` and `fleethook.engines.crds.apply.crd_apply.apply`;
                StoredVersionsError if the tarball drops a version that objects may be stored in. The message has no
                secret.
        """
        target = await read_target(self._host, karmada, max_response_bytes=MAX_RESPONSE_BYTES)
        values = build_values(name=key.name, namespace=key.namespace, ca_pem=target.ca_pem)
        try:
            async with Connection(target.access) as connection:
                await _probe(connection)
                async with self._slots.hold(key.namespace):
                    applied = await self._apply(connection, key, fetched, values, whole=False)
                if applied is None:
                    async with self._large.hold(key.namespace):
                        applied = await self._apply(connection, key, fetched, values, whole=True)
                assert applied is not None, "the whole tarball was read"
                names = [one.name for one in applied]
                await wait_established(connection, names, seconds=ESTABLISHED_SECONDS)
        except CRDsError as error:
            raise target.conceal(error) from None
        return applied

    async def _apply(
        self, connection: Connection, key: ObjectKey, fetched: Fetched, values: dict[str, str], *, whole: bool
    ) -> list[Applied] | None:
        """Apply a tarball; return None if reading it exceeds the limits of a first try (``whole`` is False)."""
        load = functools.partial(self._load, fetched)
        try:
            crds, patches = await self._verifier.read(load, values, lane=key.namespace, whole=whole)
        except CRDsError as error:
            if error.exit is Exit.LIMIT and not whole:
                return None
            raise
        try:
            async with asyncio.timeout(MAX_APPLY_SECONDS):
                await check_stored_versions(connection, crds, patches)
                applied = await apply(connection, crds, patches)
        except TimeoutError:
            text = f"{connection.host}: applying the CRDs took more than {MAX_APPLY_SECONDS:g} s"
            raise CRDsError(Exit.NETWORK, text, transient=True) from None
        warnings = find_foreign_webhooks(patches, values)
        return [one._replace(warning=warnings.get(one.name, "")) for one in applied]

    def _load(self, fetched: Fetched) -> bytes:
        found = self._cache.tarball(fetched.key)
        if found is None or hashlib.sha256(found[1]).hexdigest() != fetched.sha256:
            text = f"the tarball sha256:{fetched.sha256} is no longer in the cache"
            raise CRDsError(Exit.NOT_CACHED, text, transient=True)
        return found[1]


async def _probe(connection: Connection) -> None:
    """Request the version, which needs no permission; raises CRDsError if the server does not answer."""
    try:
        await connection.json("GET", "/version", timeout=PROBE_SECONDS)
    except APIError:
        return  # The server answers. Requests for CRDs will report its refusals.
    except UnreachableError as error:
        raise CRDsError(Exit.NETWORK, str(error), transient=True) from None
    except msgspec.DecodeError:
        raise CRDsError(Exit.HTTP, f"{connection.host} does not answer like an apiserver") from None
