"""Objects of custom resources in another version, for webhooks whose rules name that version (research 2.3, 2.8).

An apiserver converts to the version that a rule names before it calls. Without a webhook for that (``spec.conversion``
of the definition) only the ``apiVersion`` differs; with one, this module says so and how to ask it, and judges what it
answers; the call is made elsewhere (upstream: apiextensions-apiserver, pkg/apiserver/conversion).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from app.dispatch.builtin_conversion.versions import convert_builtin
from app.model.gvk import GroupVersionKind, parse_api_version
from app.model.json import JSON, JSONObject, as_object
from app.model.meta import label_key_problem, label_value_problem

_GROUP: Final = "apiextensions.k8s.io"
_KIND: Final = "ConversionReview"
_KNOWN: Final = ("v1", "v1beta1")
# What of metadata a webhook may change.
_OWN: Final = ("labels", "annotations")
_REMEDY: Final = "name the requested version in the webhook's rules"
# An object with nothing but its type has nothing to convert.
_EMPTY: Final = {"apiVersion", "kind"}


class ConversionError(ValueError):
    """An object cannot be had in a version."""


class NeedsWebhook(NamedTuple):
    """That a webhook has to be asked to convert an object."""

    client_config: JSONObject
    """``spec.conversion.webhook.clientConfig``, in the form of those of admission webhooks."""
    version: str
    """Of the ConversionReview: the first that the webhook takes and that is known."""


def plan_conversion(
    document: JSONObject, to: GroupVersionKind, *, definition: JSONObject | None
) -> JSONObject | NeedsWebhook:
    """Return an object in another version, which shares with it what did not change, or what it takes to have it.

    Args:
        document: The object; it is left alone.
        to: What it is to be.
        definition: Of a custom resource, a CustomResourceDefinition or an APIResourceSchema; None for what is built in.

    Raises:
        ConversionError: It cannot be that, or nothing is known of that version of a built-in kind.
    """
    source = _kind_of(document)
    if source == to:
        return document
    if definition is None:
        return _converted_builtin(document, source, to)
    spec = as_object(definition.get("spec"))
    _check_versions(spec, source, to)
    conversion = as_object(spec.get("conversion"))
    # An apiserver sets "None" where nothing is said.
    strategy = conversion.get("strategy") or "None"
    if strategy == "None" or (strategy == "Webhook" and document.keys() == _EMPTY):
        return {**document, "apiVersion": to.api_version}
    if strategy != "Webhook":
        raise ConversionError(f"unknown conversion strategy {strategy!r} for {_named(source)}")
    return _needed(as_object(conversion.get("webhook")), source)


def convert(document: JSONObject, to: GroupVersionKind, *, definition: JSONObject | None) -> JSONObject:
    """Return an object in another version, without a conversion webhook; arguments and errors as for `plan_conversion`.

    Raises:
        ConversionError: Also if it takes a webhook.
    """
    planned = plan_conversion(document, to, definition=definition)
    if isinstance(planned, NeedsWebhook):
        raise ConversionError(
            f"{_named(_kind_of(document))} becomes {_named(to)} through a conversion webhook, which is not asked here"
        )
    return planned


def _converted_builtin(document: JSONObject, source: GroupVersionKind, to: GroupVersionKind) -> JSONObject:
    try:
        made = convert_builtin(document, source, to)
    except ValueError as error:
        raise ConversionError(f"{_named(source)} cannot be converted to {_named(to)}: {error}") from None
    if made is None:
        raise ConversionError(f"fleethook cannot convert built-in {_named(source)} to {_named(to)}: {_REMEDY}")
    return made


def _kind_of(document: JSONObject) -> GroupVersionKind:
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise ConversionError("an object without apiVersion and kind cannot be converted")
    return GroupVersionKind(*parse_api_version(api_version), kind)


def _named(kind: GroupVersionKind) -> str:
    return f"{kind.api_version}, Kind={kind.kind}"


def _check_versions(spec: Mapping[str, JSON], source: GroupVersionKind, to: GroupVersionKind) -> None:
    """Raise ConversionError unless both kinds are versions of the resource, served or not."""
    versions = spec.get("versions")
    names = [as_object(version).get("name") for version in (versions if isinstance(versions, list) else ())]
    for direction, kind in (("to", to), ("from", source)):
        if kind.group != spec.get("group") or kind.version not in names:
            raise ConversionError(f"request to convert CR {direction} an invalid group/version: {kind.api_version}")
    if source.kind != to.kind:
        raise ConversionError(f"{_named(source)} cannot become {_named(to)}: these are two kinds")


def _needed(webhook: Mapping[str, JSON], source: GroupVersionKind) -> NeedsWebhook:
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions")
    if not isinstance(config, dict):
        raise ConversionError(f"conversion webhook for {_named(source)} has no clientConfig")
    for version in versions if isinstance(versions, list) else ():
        if version in _KNOWN:
            return NeedsWebhook(config, version)
    raise ConversionError(f"conversion webhook for {_named(source)}: no supported conversion review versions")


def build_conversion_review(documents: Iterable[JSONObject], api_version: str, *, uid: str, version: str) -> JSONObject:
    """Return the review that a conversion webhook is sent.

    Args:
        documents: Objects of one kind, none of which is in the version that is wanted.
        api_version: That they are wanted in.
        uid: Of this call.
        version: Of the review, as `plan_conversion` has it.
    """
    request = {"uid": uid, "desiredAPIVersion": api_version, "objects": list(documents)}
    return {"apiVersion": f"{_GROUP}/{version}", "kind": _KIND, "request": request}


def read_converted_objects(
    text: bytes, documents: Sequence[JSONObject], api_version: str, *, uid: str, version: str
) -> list[JSONObject]:
    """Return the objects that a conversion webhook has made, in the order of those that it was sent.

    Of metadata only labels and annotations are the webhook's; the rest is as it was sent.

    Args:
        text: What it answered.
        documents: What it was sent.
        api_version: That they were wanted in.
        uid: Of the call.
        version: Of the review; v1beta1 is believed without uid and kind, as an apiserver does.

    Raises:
        ConversionError: It refused, or its answer is none.
    """
    webhook = f"conversion webhook to {api_version}"
    found = _converted_objects(text, uid=uid, version=version, failed=f"{webhook} failed")
    if len(found) != len(documents):
        raise ConversionError(f"{webhook} returned {len(found)} objects, expected {len(documents)}")
    made = []
    for index, (original, answer) in enumerate(zip(documents, found, strict=True)):
        problem = next(_problems(original, answer, api_version), None)
        if problem is not None:
            raise ConversionError(f"{webhook} returned invalid object at index {index}: {problem}")
        made.append({**answer, "metadata": _metadata(original, answer)})
    return made


def _converted_objects(text: bytes, *, uid: str, version: str, failed: str) -> list[JSON]:
    try:
        review = as_object(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConversionError(f"{failed}: it is no {_KIND}: {str(error) or 'nested too deep'}") from None
    expected, got = (f"{_GROUP}/{version}", _KIND), (review.get("apiVersion"), review.get("kind"))
    if version == "v1" and got != expected:
        raise ConversionError(f"{failed}: expected webhook response of {_pair(expected)}, got {_pair(got)}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise ConversionError(f"{failed}: no response provided")
    if version == "v1" and response.get("uid") != uid:
        raise ConversionError(f'{failed}: expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    result = as_object(response.get("result"))
    status = result.get("status") or ""
    if status != "Success":
        told = result.get("message") or f"response.result.status was '{status}', not 'Success'"
        raise ConversionError(f"{failed}: {told}")
    objects = response.get("convertedObjects")
    return objects if isinstance(objects, list) else []


def _pair(pair: tuple[JSON, JSON]) -> str:
    api_version, kind = pair
    return f"{api_version or ''}, Kind={kind or ''}"


def _problems(original: JSONObject, answer: JSON, api_version: str) -> Iterator[str]:
    """Yield why an answer is not an object in another version."""
    found = as_object(answer)
    for member, expected in (("apiVersion", api_version), ("kind", original.get("kind"))):
        if found.get(member) != expected:
            yield f"invalid {member} (expected {expected}, received {found.get(member) or 'none'})"
    after = found.get("metadata")
    if not isinstance(after, dict):
        yield "its metadata is missing or no object"
        return
    before = as_object(original.get("metadata"))
    for member in ("name", "namespace", "uid"):
        if (before.get(member) or "") != (after.get(member) or ""):
            yield f"must have the same {member}: {before.get(member) or 'none'} != {after.get(member) or 'none'}"
    for member in _OWN:
        yield from _map_problems(as_object(before.get(member)), after.get(member), member)


def _map_problems(before: Mapping[str, JSON], after: JSON, member: str) -> Iterator[str]:
    """Yield what is wrong with labels or annotations; what was there before is not looked at."""
    if after is not None and not isinstance(after, dict):
        yield f"metadata.{member} is no object"
    for key, value in as_object(after).items():
        if not isinstance(value, str):
            yield f"metadata.{member}[{key}] must be a string"
        elif before.get(key) != value:
            problem = _entry_problem(key, value, member)
            if problem is not None:
                yield f"metadata.{member}[{key}]: {problem}"


def _entry_problem(key: str, value: str, member: str) -> str | None:
    if member == "annotations":
        # Their prefixes may be in upper case (apimachinery: ValidateAnnotations).
        return label_key_problem(key.lower())
    return label_key_problem(key) or label_value_problem(value)


def _metadata(original: JSONObject, answer: JSONObject) -> JSONObject:
    kept = {name: value for name, value in as_object(original.get("metadata")).items() if name not in _OWN}
    own = {member: answer["metadata"].get(member) for member in _OWN}
    return {**kept, **{member: values for member, values in own.items() if values is not None}}
