"""Converts objects to the version that a rule names, before the webhook is called (apiextensions-apiserver).

With the strategy ``None`` only the ``apiVersion`` differs. With ``Webhook``, a conversion webhook converts (upstream:
pkg/apiserver/conversion).
"""

import uuid
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from fleethook.cluster.store import StoreView
from fleethook.engines.dispatch.attributes_and_cluster_annotation import annotate_cluster
from fleethook.engines.dispatch.call.recorded_calls import CallTrace
from fleethook.engines.dispatch.dispatcher import MatchedRequest
from fleethook.engines.dispatch.errors_and_deadline import Deadline, StatusError, internal, too_many_requests
from fleethook.engines.dispatch.match.equivalent_resources import find_definition
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import find_endpoint
from fleethook.model.formats.names_and_labels import label_key_problem, label_value_problem
from fleethook.model.gvk import GroupVersionKind, parse_api_version
from fleethook.model.json import JSON, JSONObject, as_list, as_object, list_objects
from fleethook.model.kcp import cluster_of
from fleethook.outbound.call_errors_and_failure_log import CallError, OverloadedError
from fleethook.outbound.calls_and_retries import HookClient, Parties
from fleethook.work.threads_and_gc import Worker

_GROUP: Final = "apiextensions.k8s.io"
_KIND: Final = "ConversionReview"
_KNOWN: Final = ("v1", "v1beta1")
# The metadata that a conversion webhook may change.
_MUTABLE_METADATA: Final = ("labels", "annotations")
_REMEDY: Final = "name the requested version in the webhook's rules"
# An object with these members only has nothing to convert.
_EMPTY: Final = {"apiVersion", "kind"}

EVENT: Final = "Event"
"""The only built-in kind that kcp serves in several versions (kcp v0.32.3, kubernetes pkg/controlplane/apiserver)."""
_EVENT_VERSIONS: Final = ("v1", "events.k8s.io/v1")
_NEW_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
"""The members of an Event that ``events.k8s.io/v1`` names otherwise."""
_OLD_NAMES: Final = {new: old for old, new in _NEW_NAMES.items()}
_REPORTING: Final = ("reportingComponent", "reportingInstance")


class ConversionError(ValueError):
    """An object cannot be converted."""


class NeedsWebhook(NamedTuple):
    """The conversion webhook that must convert an object."""

    client_config: JSONObject
    """``spec.conversion.webhook.clientConfig``; it has the form of an admission webhook's."""
    version: str
    """The ConversionReview version: the first accepted version that is known."""


def plan_conversion(
    document: JSONObject, to: GroupVersionKind, *, definition: JSONObject | None
) -> JSONObject | NeedsWebhook:
    """Return an object in another version, or the conversion webhook that is needed.

    Args:
        document: The object. It is not changed; the result shares its unchanged parts.
        to: The target kind.
        definition: The CustomResourceDefinition or APIResourceSchema of a custom resource, None for a built-in kind.

    Raises:
        ConversionError: The object cannot be converted, or the version of a built-in kind is unknown.
    """
    source = _read_kind(document)
    if source == to:
        return document
    if definition is None:
        return _convert_builtin(document, source, to)
    spec = as_object(definition.get("spec"))
    _check_versions(spec, source, to)
    conversion = as_object(spec.get("conversion"))
    # "None" is the apiserver's default.
    strategy = conversion.get("strategy") or "None"
    if strategy == "None" or (strategy == "Webhook" and document.keys() == _EMPTY):
        return {**document, "apiVersion": to.api_version}
    if strategy != "Webhook":
        raise ConversionError(f"unknown conversion strategy {strategy!r} for {_format_kind(source)}")
    return _find_webhook(as_object(conversion.get("webhook")), source)


def _convert_builtin(document: JSONObject, source: GroupVersionKind, to: GroupVersionKind) -> JSONObject:
    versions = {source.api_version, to.api_version}
    if {source.kind, to.kind} != {EVENT} or not versions.issubset(_EVENT_VERSIONS):
        raise ConversionError(
            f"fleethook cannot convert built-in {_format_kind(source)} to {_format_kind(to)}: {_REMEDY}"
        )
    return _convert_event(document, to.api_version)


def _convert_event(event: JSONObject, api_version: str) -> JSONObject:
    """Convert an Event to the other version (kubernetes: pkg/apis/events/v1/conversion.go).

    Args:
        event: The Event as an apiserver sends it: with defaults, and without members unknown to its version.
        api_version: The other version.
    """
    is_new = api_version == "events.k8s.io/v1"
    names = _NEW_NAMES if is_new else _OLD_NAMES
    made = {names.get(name, name): value for name, value in event.items()}
    series = made.get("series")
    if is_new:
        # Go omits these empty texts in the new version, and the count of a series in the old one.
        for name in map(_NEW_NAMES.get, _REPORTING, _REPORTING):
            if made.get(name) == "":
                del made[name]
        if series and isinstance(series, dict):
            made["series"] = {"count": 0, **series}
    else:
        made = {**dict.fromkeys(_REPORTING, ""), **made}
        if isinstance(series, dict) and series.get("count") == 0:
            made["series"] = {name: value for name, value in series.items() if name != "count"}
    return {**made, "apiVersion": api_version}


def _read_kind(document: JSONObject) -> GroupVersionKind:
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise ConversionError("an object without apiVersion and kind cannot be converted")
    return GroupVersionKind(*parse_api_version(api_version), kind)


def _format_kind(kind: GroupVersionKind) -> str:
    return f"{kind.api_version}, Kind={kind.kind}"


def _check_versions(spec: Mapping[str, JSON], source: GroupVersionKind, to: GroupVersionKind) -> None:
    """Raise ConversionError unless the definition has both versions, served or not."""
    names = [version.get("name") for version in list_objects(spec.get("versions"))]
    for direction, kind in (("to", to), ("from", source)):
        if kind.group != spec.get("group") or kind.version not in names:
            raise ConversionError(f"request to convert CR {direction} an invalid group/version: {kind.api_version}")
    if source.kind != to.kind:
        raise ConversionError(f"{_format_kind(source)} cannot be converted to {_format_kind(to)}: the kinds differ")


def _find_webhook(webhook: Mapping[str, JSON], source: GroupVersionKind) -> NeedsWebhook:
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions")
    if not isinstance(config, dict):
        raise ConversionError(f"conversion webhook for {_format_kind(source)} has no clientConfig")
    for version in as_list(versions):
        if version in _KNOWN:
            return NeedsWebhook(config, version)
    raise ConversionError(f"conversion webhook for {_format_kind(source)}: no supported conversion review versions")


def build_conversion_review(documents: Iterable[JSONObject], api_version: str, *, uid: str, version: str) -> JSONObject:
    """Build the ConversionReview for a conversion webhook.

    Args:
        documents: Objects of one kind, none of them in the target version.
        api_version: The target version.
        uid: The uid of this call.
        version: The ConversionReview version (`plan_conversion`).
    """
    request = {"uid": uid, "desiredAPIVersion": api_version, "objects": list(documents)}
    return {"apiVersion": f"{_GROUP}/{version}", "kind": _KIND, "request": request}


def read_converted_objects(
    text: bytes, documents: Sequence[JSONObject], api_version: str, *, uid: str, version: str
) -> list[JSONObject]:
    """Return the converted objects of a conversion webhook's response, in the order of the request.

    A conversion webhook can change labels and annotations only; other metadata is restored.

    Args:
        text: The body of the response.
        documents: The objects of the request.
        api_version: The target version.
        uid: The uid of the call.
        version: The ConversionReview version. As upstream, uid and kind are not verified for v1beta1.

    Raises:
        ConversionError: The webhook refused, or its response is invalid.
    """
    webhook = f"conversion webhook to {api_version}"
    objects = _parse_review(text, uid=uid, version=version, failed=f"{webhook} failed")
    if len(objects) != len(documents):
        raise ConversionError(f"{webhook} returned {len(objects)} objects, expected {len(documents)}")
    made = []
    for index, (original, answer) in enumerate(zip(documents, objects, strict=True)):
        problem = next(_find_problems(original, answer, api_version), None)
        if problem is not None:
            raise ConversionError(f"{webhook} returned invalid object at index {index}: {problem}")
        made.append({**answer, "metadata": _merge_metadata(original, answer)})
    return made


def _parse_review(text: bytes, *, uid: str, version: str, failed: str) -> list[JSON]:
    try:
        review = as_object(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConversionError(f"{failed}: not a {_KIND}: {str(error) or 'nested too deep'}") from None
    expected, got = (f"{_GROUP}/{version}", _KIND), (review.get("apiVersion"), review.get("kind"))
    if version == "v1" and got != expected:
        raise ConversionError(
            f"{failed}: expected webhook response of {_format_pair(expected)}, got {_format_pair(got)}"
        )
    response = review.get("response")
    if not isinstance(response, dict):
        raise ConversionError(f"{failed}: no response provided")
    if version == "v1" and response.get("uid") != uid:
        raise ConversionError(f'{failed}: expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    result = as_object(response.get("result"))
    status = result.get("status") or ""
    if status != "Success":
        reason = result.get("message") or f"response.result.status was '{status}', not 'Success'"
        raise ConversionError(f"{failed}: {reason}")
    return as_list(response.get("convertedObjects"))


def _format_pair(pair: tuple[JSON, JSON]) -> str:
    api_version, kind = pair
    return f"{api_version or ''}, Kind={kind or ''}"


def _find_problems(original: JSONObject, answer: JSON, api_version: str) -> Iterator[str]:
    """Yield the reasons why an answer is not the converted object."""
    found = as_object(answer)
    for member, expected in (("apiVersion", api_version), ("kind", original.get("kind"))):
        if found.get(member) != expected:
            yield f"invalid {member} (expected {expected}, received {found.get(member) or 'none'})"
    after = found.get("metadata")
    if not isinstance(after, dict):
        yield "metadata is missing or not an object"
        return
    before = as_object(original.get("metadata"))
    for member in ("name", "namespace", "uid"):
        if (before.get(member) or "") != (after.get(member) or ""):
            yield f"must have the same {member}: {before.get(member) or 'none'} != {after.get(member) or 'none'}"
    for member in _MUTABLE_METADATA:
        yield from _find_map_problems(as_object(before.get(member)), after.get(member), member)


def _find_map_problems(before: Mapping[str, JSON], after: JSON, member: str) -> Iterator[str]:
    """Yield the problems of changed labels or annotations; unchanged ones are not validated."""
    if after is not None and not isinstance(after, dict):
        yield f"metadata.{member} is not an object"
    for key, value in as_object(after).items():
        if not isinstance(value, str):
            yield f"metadata.{member}[{key}] must be a string"
        elif before.get(key) != value:
            problem = _find_entry_problem(key, value, member)
            if problem is not None:
                yield f"metadata.{member}[{key}]: {problem}"


def _find_entry_problem(key: str, value: str, member: str) -> str | None:
    if member == "annotations":
        # Prefixes of annotations may have capital letters (apimachinery: ValidateAnnotations).
        return label_key_problem(key.lower())
    return label_key_problem(key) or label_value_problem(value)


def _merge_metadata(original: JSONObject, answer: JSONObject) -> JSONObject:
    kept = {name: value for name, value in as_object(original.get("metadata")).items() if name not in _MUTABLE_METADATA}
    own = {member: answer["metadata"].get(member) for member in _MUTABLE_METADATA}
    return {**kept, **{member: values for member, values in own.items() if values is not None}}


_CONVERSION_SECONDS: Final = 30.0
# The limit of bytes of a response that is parsed on the event loop. This is an estimate, not a measurement.
_SHORT_ANSWER: Final = 64 * 1024


class ObjectConverter:
    """Converts custom resources as their definitions declare."""

    def __init__(self, store: StoreView, client: HookClient | None = None) -> None:
        """Initialize the converter. Without a client, it calls no webhook, and refuses conversions that need one."""
        self._store: Final = store
        self._client: Final = client
        self._worker: Final = Worker()

    async def __call__(
        self,
        document: JSON,
        kind: GroupVersionKind,
        *,
        target: MatchedRequest,
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
        if self._client is None:
            versions = f"{_format_kind(_read_kind(document))} to {_format_kind(kind)}"
            raise ConversionError(f"{versions} needs a conversion webhook, which is not called here")
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
    note(converted=made)
    return made


def _name_version(document: JSONObject) -> str:
    return f"{document.get('apiVersion')}/{document.get('kind')}"
