"""Converts objects for webhooks that take another version, by a conversion webhook if needed."""

import uuid
from collections.abc import Awaitable
from functools import partial
from typing import Final

import msgspec

from fleethook.cluster.store import StoreView
from fleethook.engines.dispatch.call.call import Deadline
from fleethook.engines.dispatch.call.call_trace import CallTrace
from fleethook.engines.dispatch.convert.conversion_rules import (
    ConversionError,
    NeedsWebhook,
    build_conversion_review,
    plan_conversion,
    read_converted_objects,
)
from fleethook.engines.dispatch.dispatch_errors import StatusError, internal, too_many_requests
from fleethook.engines.dispatch.dispatcher import Target
from fleethook.engines.dispatch.hooks.hooks import find_endpoint
from fleethook.engines.dispatch.match.attributes import annotate_cluster
from fleethook.engines.dispatch.match.equivalent_resources import find_definition
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSON, JSONObject
from fleethook.model.kcp import cluster_of
from fleethook.outbound.call_errors import CallError, OverloadedError
from fleethook.outbound.client import HookClient, Parties
from fleethook.work.worker import Worker

_CONVERSION_SECONDS: Final = 30.0
# The limit of bytes of a response that is parsed on the event loop. This is an estimate, not a measurement.
_SHORT_ANSWER: Final = 64 * 1024


class ObjectConverter:
    """Converts custom resources as their definitions declare."""

    def __init__(self, store: StoreView, client: HookClient) -> None:
        """Initialize the converter."""
        self._store: Final = store
        self._client: Final = client
        self._worker: Final = Worker()

    async def __call__(
        self,
        document: JSON,
        kind: GroupVersionKind,
        *,
        target: Target,
        deadline: Deadline,
        trace: CallTrace | None = None,
    ) -> JSON:
        """Return an object in another version; other JSON values are returned unchanged.

        Args:
            document: The object.
            kind: The kind to convert it to.
            target: The request, for the definition of its resource.
            deadline: The deadline of the request.
            trace: Takes the answer of a conversion webhook.

        Raises:
            StatusError: No conversion exists, or the conversion webhook fails.
        """
        if not isinstance(document, dict):
            return document
        attributes = target.attributes
        definition = find_definition(
            self._store,
            cluster=attributes.cluster,
            group=attributes.resource.group,
            resource=attributes.resource.resource,
            schema=target.ownership.schema,
        )
        try:
            planned = plan_conversion(document, kind, definition=definition)
            if not isinstance(planned, NeedsWebhook):
                return planned
            owner = target.ownership.cluster or ""
            parties = Parties(owner, attributes.cluster)
            call = self._call_webhook(planned, document, kind, parties=parties, seconds=deadline.remaining)
            made = await call if trace is None else await _note(call, trace, document, kind, cluster=owner)
            # A conversion webhook may change annotations, but not this one.
            return (
                annotate_cluster(made, cluster_of(document), where="the converted object")
                if cluster_of(document)
                else made
            )
        except ConversionError as error:
            raise internal(str(error)) from error

    async def _call_webhook(
        self, planned: NeedsWebhook, document: JSONObject, kind: GroupVersionKind, *, parties: Parties, seconds: float
    ) -> JSON:
        endpoint, problem = find_endpoint(planned.client_config, parties.owner)
        if endpoint is None:
            raise ConversionError(f"conversion webhook for {kind.kind} cannot be called: {problem}")
        uid = str(uuid.uuid4())
        review = build_conversion_review([document], kind.api_version, uid=uid, version=planned.version)
        body = msgspec.json.encode(review)
        try:
            text = await self._client.post(endpoint, body, seconds=_CONVERSION_SECONDS, within=seconds, parties=parties)
        except OverloadedError as error:
            raise too_many_requests(f"conversion webhook for {kind.kind} was not called: {error}") from error
        except CallError as error:
            raise ConversionError(f"conversion webhook for {kind.kind} failed: {error}") from error
        parse = partial(read_converted_objects, text, [document], kind.api_version, uid=uid, version=planned.version)
        made = await self._worker.run(parties.consumer, parse) if len(text) > _SHORT_ANSWER else parse()
        return made[0]


async def _note(
    call: Awaitable[JSON], trace: CallTrace, document: JSONObject, kind: GroupVersionKind, *, cluster: str
) -> JSON:
    """Await the answer of a conversion webhook, and note it."""
    note = partial(trace.note_conversion, _name_version(document), kind.api_version, cluster=cluster)
    try:
        made = await call
    except (ConversionError, StatusError) as error:
        note(error=error)
        raise
    note(made=made)
    return made


def _name_version(document: JSONObject) -> str:
    return f"{document.get('apiVersion')}/{document.get('kind')}"
