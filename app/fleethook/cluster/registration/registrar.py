"""Apply the CustomResourceDefinitions and webhook configurations of this server, and keep their ``caBundle``."""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

import msgspec

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.connection import Connection
from fleethook.cluster.registration.server_side_apply import apply_object, get_object, release_fields
from fleethook.cluster.registration.webhooks import (
    LABELS,
    Reference,
    ca_bundles,
    configuration_path,
    webhook_configurations,
)
from fleethook.model.crd import RESOURCES, custom_resource_definition
from fleethook.model.json import JSONObject

_log: Final = logging.getLogger(__name__)

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


class Registrar:
    """Registers this server with an apiserver.

    Attributes:
        problem: Why registration failed last time, ``""`` if it succeeded.
        installed: Set after the webhook configurations were applied.
    """

    def __init__(
        self,
        connection: Connection,
        bundle: Callable[[], bytes],
        *,
        check_seconds: float = CHECK_SECONDS,
        ready: Callable[[], Awaitable[None]] = _return_at_once,
        defined: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare.

        Args:
            connection: To the apiserver.
            bundle: Returns the PEM authorities for ``caBundle``; see `CAInjector`.
            check_seconds: Seconds between two comparisons of ``caBundle``.
            ready: Waits until this server can answer every request. Nothing is installed before; ``caBundle`` is kept.
            defined: Called after each CustomResourceDefinition that was applied.
        """
        self._connection: Final = connection
        self._injector: Final = CAInjector(connection, bundle)
        self._check_seconds: Final = check_seconds
        self._ready: Final = ready
        self._defined: Final = defined
        self.problem = ""
        self.installed: Final = asyncio.Event()

    async def install(
        self,
        reference: Reference,
        *,
        exempt_namespaces: Sequence[str],
        engines: Collection[str],
        selecting: bool = True,
    ) -> None:
        """Apply the CustomResourceDefinitions and the webhook configurations; raises APIError, UnreachableError.

        Arguments as for `webhook_configurations`.
        """
        for resource in RESOURCES:
            if resource.engine not in engines:
                continue
            await self._install_definition(custom_resource_definition(resource))
        bundle = self._injector.encode_bundle()
        for configuration in webhook_configurations(
            reference, exempt_namespaces=exempt_namespaces, engines=engines, selecting=selecting
        ):
            # Without a bundle, the configuration would reject every write until the injector adds it.
            for webhook in configuration["webhooks"]:
                webhook["clientConfig"]["caBundle"] = bundle
            await self._apply(configuration_path(configuration["kind"]), configuration)

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

    async def run(
        self,
        reference: Reference | None,
        *,
        exempt_namespaces: Sequence[str],
        engines: Collection[str],
        selecting: bool = True,
    ) -> None:
        """Install once, if there is a ``reference``, then keep ``caBundle`` until cancelled."""
        installed = reference is None
        ready = asyncio.ensure_future(_return_at_once() if installed else self._ready())
        try:
            while True:
                try:
                    if reference is not None and not installed and ready.done():
                        await self.install(
                            reference, exempt_namespaces=exempt_namespaces, engines=engines, selecting=selecting
                        )
                        installed = True
                        self.installed.set()
                        _log.info("registered with the apiserver")
                    await self._injector.inject()
                    self.problem = ""
                except (APIError, UnreachableError, OSError) as error:
                    if self.problem != str(error):
                        _log.error("registration failed, trying again: %s", error)
                    self.problem = str(error)
                if ready.done() and (installed or self.problem):
                    await asyncio.sleep(self._check_seconds)
                else:
                    # `ready` may have finished while the injector was waiting for the apiserver.
                    await asyncio.wait([ready], timeout=self._check_seconds)
        finally:
            ready.cancel()

    async def _apply(self, path: str, body: JSONObject) -> None:
        await apply_object(self._connection, path, body, manager=_MANAGER)
