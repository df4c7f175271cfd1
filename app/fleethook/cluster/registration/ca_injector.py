"""Keep ``caBundle`` of the webhook configurations equal to this server's certificate authorities."""

import base64
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from fleethook.cluster.connection import Connection
from fleethook.cluster.registration.server_side_apply import apply_object, get_object, release_fields
from fleethook.cluster.registration.webhooks import ca_bundles, configuration_path

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
