"""Describes Karmada instances: the source of their CRDs, the pinned digest, and the conditions."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

from fleethook.cluster.store import ObjectKey
from fleethook.engines.crds.cache.entry_state import Listed
from fleethook.engines.crds.crds_errors import CRDsError
from fleethook.engines.crds.instance.karmada_release import read_instance_release
from fleethook.engines.crds.instance.source_selection import select_source
from fleethook.engines.crds.instance.tarball_validation import is_chosen_by_version
from fleethook.engines.crds.tarball_source import redact
from fleethook.model.formats.text import escape
from fleethook.model.json import JSON, JSONObject, as_object

MAX_CONDITIONS: Final = 20

_SOME_RELEASE: Final = "v0.0.0"
"""A release for instances whose operator chooses it; no page shows it."""

PinState = Literal["none", "unknown", "missing", "untrusted", "match", "mismatch"]
"""``none``: without a pin. ``unknown``: the operator chooses the URL. ``missing``: no entry. ``untrusted``: the entry
is not verified. ``match``, ``mismatch``: the verified entry has the pinned digest, or another one."""

PIN_TEXTS: Final[dict[PinState, str]] = {
    "none": "no pin",
    "unknown": "the operator chooses the URL",
    "missing": "not in the cache",
    "untrusted": "the cache entry is not trusted",
    "match": "the cache entry has this digest",
    "mismatch": "the cache entry has another digest",
}


class ConditionView(NamedTuple):
    """A condition; every text is as stored."""

    type: str
    status: str
    reason: str
    message: str
    since: str


class InstanceView(NamedTuple):
    """An instance of Karmada.

    Attributes:
        cluster: Its logical cluster.
        namespace: Its namespace.
        name: Its name.
        source: The source of its tarball without secrets, ``""`` if the instance is invalid.
        key: The key of the cache entry, ``""`` if it is unknown.
        policy: The download policy, ``""`` if the instance is invalid.
        pin: The pinned SHA-256 digest, ``""`` without a pin.
        problem: The reason why the instance is invalid, else ``""``.
        warnings: The warnings about its source.
        conditions: The first conditions of its status.
    """

    cluster: str
    namespace: str
    name: str
    source: str
    key: str
    policy: str
    pin: str
    problem: str
    warnings: tuple[str, ...]
    conditions: tuple[ConditionView, ...]


def describe_instance(key: ObjectKey, document: JSONObject) -> InstanceView:
    """Return the description of an instance; its fields may have any type."""
    release = read_instance_release(document).release
    conditions = _read_conditions(document)
    try:
        chosen = select_source(document, version=release or _SOME_RELEASE)
    except (CRDsError, UnicodeEncodeError) as error:  # a path of a file may have a lone surrogate
        return InstanceView(*_name(key), "", "", "", "", escape(str(error)), (), conditions)
    by_operator = is_chosen_by_version(as_object(document.get("spec")).get("crdTarball"))
    return InstanceView(
        *_name(key),
        source=_describe_release(release) if by_operator else escape(redact(chosen.source.url)),
        key="" if by_operator else chosen.source.key,
        policy=chosen.policy.value,
        pin=chosen.source.sha256,
        problem="",
        warnings=tuple(map(escape, chosen.warnings)),
        conditions=conditions,
    )


def order_instances(keys: Iterable[ObjectKey]) -> list[ObjectKey]:
    """Return the keys of instances, sorted by cluster, namespace and name."""
    return sorted(keys, key=lambda key: (key.cluster, key.namespace, key.name))


def describe_instances(documents: Mapping[ObjectKey, JSONObject]) -> list[InstanceView]:
    """Return the descriptions of instances, in their order."""
    return [describe_instance(*item) for item in documents.items()]


def compare_pin(instance: InstanceView, entries: Mapping[str, Listed]) -> PinState:
    """Return the state of an instance's pin.

    Args:
        instance: The instance.
        entries: The entries of the cache by key; an entry that is not verified never matches.
    """
    if not instance.pin:
        return "none"
    if not instance.key:
        return "unknown"
    entry = entries.get(instance.key)
    if entry is None:
        return "missing"
    if entry.state != "ready" or entry.record is None:
        return "untrusted"
    return "match" if entry.record.sha256 == instance.pin else "mismatch"


def find_users(instances: Iterable[InstanceView], key: str) -> list[InstanceView]:
    """Return the instances whose tarball is the entry of a key."""
    return [one for one in instances if one.key == key]


def _name(key: ObjectKey) -> tuple[str, str, str]:
    return key.cluster, key.namespace, key.name


def _describe_release(release: str) -> str:
    return f"the release of Karmada's operator{f'; the images are of {release}' if release else ''}"


def _read_conditions(document: JSONObject) -> tuple[ConditionView, ...]:
    stored = as_object(document.get("status")).get("conditions")
    listed = stored[:MAX_CONDITIONS] if isinstance(stored, list) else ()
    return tuple(_read_condition(as_object(one)) for one in listed)


def _read_condition(condition: Mapping[str, JSON]) -> ConditionView:
    names = ("type", "status", "reason", "message", "lastTransitionTime")
    texts = [condition.get(name) for name in names]
    return ConditionView(*(escape(text) if isinstance(text, str) else "" for text in texts))
