"""Applying the registration to an apiserver, and keeping ``caBundle`` what it has to be."""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from app.kube.connection import APPLY_PATCH, Connection
from app.kube.errors import APIError, UnreachableError
from app.model.crd import RESOURCES, custom_resource_definition
from app.model.json import JSONObject
from app.registration.webhooks import (
    ENGINES,
    LABELS,
    Reference,
    ca_bundles,
    configuration_path,
    webhook_configurations,
)

_log: Final = logging.getLogger(__name__)

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_MANAGER: Final = "fleethook"
_BUNDLE_MANAGER: Final = "fleethook-ca-bundle"
CHECK_SECONDS: Final = 10.0


async def _at_once() -> None:
    """Wait for nothing."""


class Registrar:
    """Registers this server with an apiserver.

    Attributes:
        problem: Why that has not been done, ``""`` once it has.
        installed: Set as soon as the webhook configurations were applied.
    """

    def __init__(
        self,
        connection: Connection,
        bundle: Callable[[], bytes],
        *,
        check_seconds: float = CHECK_SECONDS,
        ready: Callable[[], Awaitable[None]] = _at_once,
        defined: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare.

        Args:
            connection: To the apiserver.
            bundle: Returns the authorities, PEM, that this server's certificate may be from now or soon.
            check_seconds: How often to compare.
            ready: Waits until every request can be answered. Before, nothing is installed; ``caBundle`` is kept.
            defined: Called when a CustomResourceDefinition was applied.
        """
        self._connection: Final = connection
        self._bundle: Final = bundle
        self._check_seconds: Final = check_seconds
        self._ready: Final = ready
        self._defined: Final = defined
        self.problem = ""
        self.installed: Final = asyncio.Event()

    async def install(
        self, reference: Reference, *, exempt_namespaces: Sequence[str], engines: Collection[str] = ENGINES
    ) -> None:
        """Apply the CustomResourceDefinitions and the webhook configurations; raises APIError, UnreachableError."""
        for resource in RESOURCES:
            if resource.engine not in engines:
                continue
            await self._install_definition(custom_resource_definition(resource))
        bundle = self._encoded()
        for configuration in webhook_configurations(reference, exempt_namespaces=exempt_namespaces, engines=engines):
            # A configuration without a bundle would refuse every write until the bundle follows.
            for webhook in configuration["webhooks"]:
                webhook["clientConfig"]["caBundle"] = bundle
            await self._apply(_path(configuration), configuration, manager=_MANAGER)

    async def _install_definition(self, definition: JSONObject) -> None:
        """Apply a CustomResourceDefinition, unless somebody else's is there: OpenYurt installs some of these itself."""
        path = f"{_CRDS}/{definition['metadata']['name']}"
        present = await self._get(path)
        if present is not None and not LABELS.items() <= (present["metadata"].get("labels") or {}).items():
            _log.info("a CustomResourceDefinition that somebody else installed is left alone: %s", path)
            return
        labelled = {**definition, "metadata": {**definition["metadata"], "labels": dict(LABELS)}}
        await self._apply(path, labelled, manager=_MANAGER)
        self._defined()

    async def _get(self, path: str) -> JSONObject | None:
        try:
            present: JSONObject = await self._connection.json("GET", path)
        except APIError as error:
            if error.code == 404:
                return None
            raise
        return present

    async def run(
        self, reference: Reference | None, *, exempt_namespaces: Sequence[str], engines: Collection[str] = ENGINES
    ) -> None:
        """Install once, if there is a ``reference``, and keep ``caBundle``, until cancelled."""
        installed = reference is None
        ready = asyncio.ensure_future(_at_once() if installed else self._ready())
        try:
            while True:
                try:
                    if reference is not None and not installed and ready.done():
                        await self.install(reference, exempt_namespaces=exempt_namespaces, engines=engines)
                        installed = True
                        self.installed.set()
                        _log.info("registered with the apiserver")
                    await self.apply_bundles()
                    self.problem = ""
                except (APIError, UnreachableError, OSError) as error:
                    if self.problem != str(error):
                        _log.error("registration failed and is tried again: %s", error)
                    self.problem = str(error)
                if ready.done() and (installed or self.problem):
                    await asyncio.sleep(self._check_seconds)
                else:
                    # It may have become ready while this looked at the bundles.
                    await asyncio.wait([ready], timeout=self._check_seconds)
        finally:
            ready.cancel()

    async def apply_bundles(self) -> None:
        """Set ``caBundle``, and nothing else, where it differs; raises APIError, UnreachableError."""
        for wanted in ca_bundles(self._encoded()):
            path = _path(wanted)
            present = await self._get(path)
            if present is None:
                continue  # Not installed, or switched off: nothing to keep, and nothing to invent.
            # An apiserver leaves an empty list out.
            there = present.get("webhooks") or []
            names = {webhook["name"]: webhook["clientConfig"].get("caBundle") for webhook in there}
            webhooks = [webhook for webhook in wanted["webhooks"] if webhook["name"] in names]
            if any(names[webhook["name"]] != webhook["clientConfig"]["caBundle"] for webhook in webhooks):
                await self._apply(path, {**wanted, "webhooks": webhooks}, manager=_BUNDLE_MANAGER)
                _log.info("caBundle set", extra={"fields": {"configuration": path.rpartition("/")[2]}})

    def _encoded(self) -> str:
        return base64.b64encode(self._bundle()).decode()

    async def _apply(self, path: str, body: JSONObject, *, manager: str) -> None:
        query = {"fieldManager": manager, "force": "true"}
        await self._connection.request("PATCH", path, query=query, body=body, content_type=APPLY_PATCH)


def _path(configuration: JSONObject) -> str:
    return configuration_path(configuration["kind"])
