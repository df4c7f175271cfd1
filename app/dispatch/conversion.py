"""Converting an object for a webhook that takes another version of it, by a conversion webhook if need be."""

import uuid
from typing import Final

import msgspec

from app.dispatch.attributes import annotated
from app.dispatch.call import Deadline
from app.dispatch.convert import ConversionError, NeedsWebhook, conversion_review, converted, plan
from app.dispatch.dispatcher import Target
from app.dispatch.equivalents import definition_of
from app.dispatch.failures import internal, too_many_requests
from app.dispatch.hooks import endpoint_of
from app.model.gvk import GroupVersionKind
from app.model.json import JSON, JSONObject
from app.model.kcp import cluster_of
from app.outbound.client import HookClient, Parties
from app.outbound.errors import CallError, OverloadedError
from app.store import StoreView

_CONVERSION_SECONDS: Final = 30.0


class Conversion:
    """Converts custom resources as their definitions say."""

    def __init__(self, store: StoreView, client: HookClient) -> None:
        """Prepare."""
        self._store: Final = store
        self._client: Final = client

    async def __call__(self, document: JSON, kind: GroupVersionKind, *, target: Target, deadline: Deadline) -> JSON:
        """Return an object in another version; what is no object stays as it is.

        Raises:
            StatusError: There is no way to, or the conversion webhook fails.
        """
        if not isinstance(document, dict):
            return document
        attributes = target.attributes
        definition = definition_of(
            self._store,
            cluster=attributes.cluster,
            group=attributes.resource.group,
            resource=attributes.resource.resource,
            schema=target.ownership.schema,
        )
        try:
            way = plan(document, kind, definition=definition)
            if not isinstance(way, NeedsWebhook):
                return way
            owner = target.ownership.cluster or ""
            parties = Parties(owner, attributes.cluster)
            made = await self._ask(way, document, kind, parties=parties, seconds=deadline.remaining)
            # Annotations are the webhook's to change; this one is not.
            return annotated(made, cluster_of(document), where="the converted object") if cluster_of(document) else made
        except ConversionError as error:
            raise internal(str(error)) from error

    async def _ask(
        self, way: NeedsWebhook, document: JSONObject, kind: GroupVersionKind, *, parties: Parties, seconds: float
    ) -> JSON:
        endpoint, problem = endpoint_of(way.client_config, parties.owner)
        if endpoint is None:
            raise ConversionError(f"conversion webhook for {kind.kind} cannot be called: {problem}")
        uid = str(uuid.uuid4())
        review = conversion_review([document], kind.api_version, uid=uid, version=way.version)
        body = msgspec.json.encode(review)
        try:
            text = await self._client.post(endpoint, body, seconds=_CONVERSION_SECONDS, within=seconds, parties=parties)
        except OverloadedError as error:
            raise too_many_requests(f"conversion webhook for {kind.kind} was not called: {error}") from error
        except CallError as error:
            raise ConversionError(f"conversion webhook for {kind.kind} failed: {error}") from error
        return converted(text, [document], kind.api_version, uid=uid, version=way.version)[0]
