"""Apply the CustomResourceDefinitions and webhook configurations of this server, and keep their ``caBundle``."""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from fleethook.cluster.api_errors import CONFLICT, FORBIDDEN, NOT_FOUND, APIError, UnreachableError, get_object
from fleethook.cluster.apiserver_connection import APPLY_PATCH, JSON_PATCH, Connection
from fleethook.cluster.registration.rule_webhooks_and_outage import SERVER_ANNOTATION
from fleethook.cluster.registration.webhook_configurations import (
    LABELS,
    Reference,
    ca_bundles,
    configuration_path,
    list_definitions,
    webhook_configurations,
)
from fleethook.model.json import JSONObject, as_object

_CLUSTER_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
_OWNER: Final[JSONObject] = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}


async def apply_object(connection: Connection, path: str, body: JSONObject, *, manager: str) -> bytes:
    """Apply an object as a field manager and return the stored object; raises APIError, UnreachableError.

    The request takes over fields that another manager owns (``force``).
    """
    query = {"fieldManager": manager, "force": "true"}
    return await connection.request("PATCH", path, query=query, body=body, content_type=APPLY_PATCH)


async def patch_object(
    connection: Connection, path: str, version: str, operations: Sequence[JSONObject], *, manager: str
) -> JSONObject:
    """Change an object by a JSON patch and return the stored object.

    Raises:
        APIError: The apiserver refuses the write; 409 if the object has another resourceVersion.
        UnreachableError: The apiserver does not respond.
    """
    body = [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *operations]
    query = {"fieldManager": manager}
    text = await connection.request("PATCH", path, query=query, body=body, content_type=JSON_PATCH)
    stored: JSONObject = msgspec.json.decode(text)
    return stored


def owns_fields(stored: JSONObject, manager: str) -> bool:
    """Return whether a field manager owns fields of an object."""
    entries = as_object(stored.get("metadata")).get("managedFields") or ()
    return any(entry.get("manager") == manager for entry in entries)


async def release_fields(connection: Connection, path: str, stored: JSONObject, *, manager: str) -> JSONObject:
    """Give up the ownership of all fields of a field manager, and return the stored object. The values stay.

    An installer that applies server-side, as Helm 4 does, can otherwise not remove an element of which another manager
    owns a field: the rest of the element stays and is invalid, so the upgrade or rollback fails.

    Raises:
        APIError: The apiserver refuses the write. A conflict is no error: the next call does the same.
        UnreachableError: The apiserver does not respond.
    """
    if not owns_fields(stored, manager):
        return stored
    metadata = stored["metadata"]
    kept = [field for field in metadata["managedFields"] if field.get("manager") != manager]
    if not kept:
        return stored  # Without an entry, the apiserver would later give all fields to another manager.
    change: JSONObject = {"op": "replace", "path": "/metadata/managedFields", "value": kept}
    try:
        return await patch_object(connection, path, metadata["resourceVersion"], [change], manager=manager)
    except APIError as error:
        if error.code != CONFLICT:
            raise
        return stored


_log: Final = logging.getLogger(__name__)


class RegistrationError(Exception):
    """A configuration cannot be replaced; the text has the reason and the remedy."""


_CA_MANAGER: Final = "fleethook-ca-bundle"


class CAInjector:
    """Writes ``caBundle`` into the webhook configurations, and no other field."""

    def __init__(self, connection: Connection, bundle: Callable[[], bytes]) -> None:
        """Prepare.

        Args:
            connection: To the apiserver.
            bundle: Returns the PEM authorities that issued this server's certificate or will issue the next one.
        """
        self._connection: Final = connection
        self._bundle: Final = bundle

    def encode_bundle(self) -> str:
        """Return the authorities as ``caBundle`` holds them: PEM in base64."""
        return base64.b64encode(self._bundle()).decode()

    async def inject(self) -> None:
        """Set ``caBundle`` where it differs; raises APIError, UnreachableError.

        A configuration that does not exist is not created: an operator may have removed it on purpose.
        """
        for wanted in ca_bundles(self.encode_bundle()):
            path = configuration_path(wanted["kind"])
            present = await get_object(self._connection, path)
            if present is None:
                continue
            # kube-apiserver omits empty lists.
            there = present.get("webhooks") or []
            names = {webhook["name"]: webhook["clientConfig"].get("caBundle") for webhook in there}
            webhooks = [webhook for webhook in wanted["webhooks"] if webhook["name"] in names]
            if any(names[webhook["name"]] != webhook["clientConfig"]["caBundle"] for webhook in webhooks):
                text = await apply_object(self._connection, path, {**wanted, "webhooks": webhooks}, manager=_CA_MANAGER)
                present = msgspec.json.decode(text)
                _log.info("caBundle set", extra={"fields": {"configuration": path.rpartition("/")[2]}})
            await release_fields(self._connection, path, present, manager=_CA_MANAGER)


_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_MANAGER: Final = "fleethook"
CHECK_SECONDS: Final = 10.0


async def _return_at_once() -> None:
    """Wait for nothing."""


class Registration(NamedTuple):
    """The registration that an operator asks for; the members are the arguments of `webhook_configurations`."""

    reference: Reference
    exempt_namespaces: Sequence[str]
    engines: Collection[str]
    selecting: bool = True


class ChangingConfigurations(NamedTuple):
    """Webhook configurations that change while the server runs.

    Attributes:
        build: Returns them without ``caBundle``. Those of rules are deleted if they have no webhooks.
        changed: Set when the result of ``build`` changes.
        owner: The ClusterRole that owns those of rules, so that Kubernetes deletes them with it; ``""`` for none.
    """

    build: Callable[[], Sequence[JSONObject]]
    changed: asyncio.Event
    owner: str = ""


class Registrar:
    """Registers this server with an apiserver.

    Attributes:
        problem: Why registration failed last time, ``""`` if it succeeded.
        installed: Set after the webhook configurations were applied.
        unserved: The paths of configurations of which the apiserver does not serve the kind.
    """

    def __init__(
        self,
        connection: Connection,
        bundle: Callable[[], bytes],
        *,
        check_seconds: float = CHECK_SECONDS,
        ready: Callable[[], Awaitable[None]] = _return_at_once,
        defined: Callable[[], None] = lambda: None,
        changing: ChangingConfigurations | None = None,
    ) -> None:
        """Prepare.

        Args:
            connection: To the apiserver.
            bundle: Returns the PEM authorities for ``caBundle``; see `CAInjector`.
            check_seconds: Seconds between two comparisons of ``caBundle``.
            ready: Waits until this server can answer every request. Nothing is installed before; ``caBundle`` is kept.
            defined: Called after each CustomResourceDefinition that was applied.
            changing: The configurations that change while the server runs.
        """
        self._connection: Final = connection
        self._injector: Final = CAInjector(connection, bundle)
        self._check_seconds: Final = check_seconds
        self._ready: Final = ready
        self._defined: Final = defined
        self._changing: Final = changing or ChangingConfigurations(tuple, asyncio.Event())
        self._applied: Final[dict[str, tuple[JSONObject, str]]] = {}
        self.problem = ""
        self.unserved: Final[set[str]] = set()
        self.installed: Final = asyncio.Event()

    async def install(self, registration: Registration) -> None:
        """Apply the CustomResourceDefinitions and the webhook configurations; raises APIError, UnreachableError."""
        for engine, definitions in list_definitions().items():
            for definition in definitions if engine in registration.engines else ():
                await self._install_definition(definition)
        for configuration in webhook_configurations(**registration._asdict()):
            self._add_bundle(configuration)
            await self._apply(configuration_path(configuration["kind"]), configuration)

    def _add_bundle(self, configuration: JSONObject) -> None:
        """Set ``caBundle``: without it, the configuration would reject every write until the injector adds it."""
        if bundle := self._injector.encode_bundle():
            for webhook in configuration["webhooks"]:
                webhook["clientConfig"]["caBundle"] = bundle

    async def apply_changing(self) -> bool:
        """Apply or delete the configurations that differ, and return whether one did.

        A configuration that somebody has edited is restored. One that somebody has deleted stays deleted until the
        result of ``build`` changes.

        Raises:
            APIError: The apiserver refuses a request.
            UnreachableError: The apiserver does not answer.
            RegistrationError: A configuration is not of this server.
        """
        self._changing.changed.clear()
        return any([await self._replace(one) for one in self._changing.build()])

    async def _replace(self, configuration: JSONObject) -> bool:
        self._add_bundle(configuration)
        metadata = configuration["metadata"]
        path = configuration_path(configuration["kind"], metadata["name"], configuration["apiVersion"])
        present = await get_object(self._connection, path)
        version = "" if present is None else present["metadata"]["resourceVersion"]
        applied, former = self._applied.get(path, (None, ""))
        if applied == configuration and version in (former, ""):
            return False
        is_rules = SERVER_ANNOTATION in metadata.get("annotations", {})
        if is_rules and present is not None:
            _check_owner(present, configuration)
        if configuration["webhooks"] or not is_rules:
            owner = await self._read_owner() if is_rules else {}
            stored = await self._apply_served(path, {**configuration, "metadata": {**metadata, **owner}})
        else:
            stored = ""
            if present is not None:
                await self._connection.request("DELETE", path)
                _log.info("deleted the webhook configuration %s, which has no webhooks any more", path)
        if path not in self.unserved:
            self._applied[path] = configuration, stored
        return stored != version

    async def _read_owner(self) -> JSONObject:
        """Return the member of ``metadata`` that names the owner of the configurations of rules.

        There is none without the ClusterRole, or without the right to read it.
        """
        if not (name := self._changing.owner):
            return {}
        try:
            found = await get_object(self._connection, f"{_CLUSTER_ROLES}/{name}")
        except APIError as error:
            if error.code != FORBIDDEN:
                raise
            found = None
        return {"ownerReferences": [{**_OWNER, "name": name, "uid": found["metadata"]["uid"]}]} if found else {}

    async def _apply_served(self, path: str, configuration: JSONObject) -> str:
        """Apply a configuration, and return its resourceVersion; ``""`` if the apiserver does not serve its kind."""
        try:
            stored = msgspec.json.decode(await self._apply(path, configuration))
        except APIError as error:
            if error.code != NOT_FOUND:
                raise
            # For example OpenYurt without Karmada, or Karmada before its CustomResourceDefinitions are installed.
            if path not in self.unserved:
                _log.info("the apiserver does not serve %s: nothing to register", path)
            self.unserved.add(path)
            return ""
        self.unserved.discard(path)
        _log.info("registered the webhooks %s", ", ".join(webhook["name"] for webhook in configuration["webhooks"]))
        return str(stored["metadata"]["resourceVersion"])

    async def _install_definition(self, definition: JSONObject) -> None:
        """Apply a CustomResourceDefinition, unless another installer owns it: OpenYurt installs some of them."""
        path = f"{_CRDS}/{definition['metadata']['name']}"
        present = await get_object(self._connection, path)
        if present is not None and not LABELS.items() <= (present["metadata"].get("labels") or {}).items():
            _log.info("keeping a CustomResourceDefinition that another installer owns: %s", path)
            return
        labelled = {**definition, "metadata": {**definition["metadata"], "labels": dict(LABELS)}}
        await self._apply(path, labelled)
        self._defined()

    async def run(self, registration: Registration | None, *, injecting: bool = True) -> None:
        """Install ``registration`` once, then keep ``caBundle`` and the changing configurations until cancelled.

        Args:
            registration: The registration to install, None if somebody else does.
            injecting: Whether to keep ``caBundle`` of the installed configurations.
        """
        ready = asyncio.ensure_future(self._ready())
        changed = asyncio.ensure_future(self._changing.changed.wait())
        try:
            while True:
                is_ready = ready.done()
                try:
                    if is_ready and registration is not None and not self.installed.is_set():
                        await self.install(registration)
                        self.installed.set()
                        _log.info("registered with the apiserver")
                    if injecting:
                        await self._injector.inject()
                    # Last: a configuration of others must not keep caBundle from the installed ones.
                    if is_ready:
                        await self.apply_changing()
                    self.problem = ""
                except (APIError, UnreachableError, RegistrationError, OSError) as error:
                    if self.problem != str(error):
                        _log.error("registration failed, trying again: %s", error)
                    self.problem = str(error)
                if changed.done():
                    changed = asyncio.ensure_future(self._changing.changed.wait())
                # `ready` may have finished while the injector was waiting for the apiserver.
                await asyncio.wait([changed if is_ready else ready], timeout=self._check_seconds)
        finally:
            ready.cancel()
            changed.cancel()

    async def _apply(self, path: str, body: JSONObject) -> bytes:
        return await apply_object(self._connection, path, body, manager=_MANAGER)


def _check_owner(present: JSONObject, wanted: JSONObject) -> None:
    """Raise RegistrationError for a configuration of another program, or of the servers in another namespace."""
    metadata = present["metadata"]
    name, server = metadata["name"], wanted["metadata"]["annotations"][SERVER_ANNOTATION]
    if not LABELS.items() <= (metadata.get("labels") or {}).items():
        raise RegistrationError(f"{present.get('kind', 'the configuration')} {name} exists, and is not of fleethook")
    other = (metadata.get("annotations") or {}).get(SERVER_ANNOTATION)
    if other != server:
        raise RegistrationError(
            f"{wanted['kind']} {name} belongs to the servers in namespace {other}, not {server}: give the Service of "
            "this server another name, or delete the configuration"
        )


END_SECONDS: Final = 10.0
"""For the requests about the registration when the server stops."""


async def end_registration(
    connection: Connection, configurations: Sequence[JSONObject], *, deletes: bool
) -> Sequence[JSONObject]:
    """Return those configurations of a stopping server that stay registered: none if ``deletes``, unless that fails."""
    try:
        async with asyncio.timeout(END_SECONDS):
            configurations = await _read_registered(connection, configurations)
            if deletes:
                await _delete_registered(connection, configurations)
                return []
    except (APIError, UnreachableError, TimeoutError) as error:
        _log.error("the webhooks may stay registered: %s", str(error) or "the apiserver does not answer")
    return configurations


async def _read_registered(connection: Connection, configurations: Sequence[JSONObject]) -> list[JSONObject]:
    """Return those configurations of a server that the apiserver has; raises APIError and UnreachableError."""
    found = []
    for configuration in configurations:
        metadata = configuration["metadata"]
        present = await get_object(
            connection, configuration_path(configuration["kind"], metadata["name"], configuration["apiVersion"])
        )
        if present is not None and _is_same(present["metadata"], metadata):
            found.append({**present, "kind": configuration["kind"], "apiVersion": configuration["apiVersion"]})
    return found


def _is_same(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a configuration is of fleethook, and of the servers in the same namespace."""
    servers = [as_object(one.get("annotations")).get(SERVER_ANNOTATION) for one in (present, wanted)]
    return LABELS.items() <= as_object(present.get("labels")).items() and servers[0] == servers[1]


async def _delete_registered(connection: Connection, registered: Iterable[JSONObject]) -> None:
    """Delete configurations; raises APIError and UnreachableError."""
    for one in registered:
        path = configuration_path(one["kind"], one["metadata"]["name"], one["apiVersion"])
        try:
            await connection.request("DELETE", path)
            _log.info("deleted the webhook configuration %s", path)
        except APIError as error:
            if error.code != NOT_FOUND:
                raise
