"""The APIBindings of the workspaces that consume an APIExport of kcp, and the webhook configurations of rules there.

This module does no I/O.

A workspace is a consumer if it has an APIBinding to the export. The server may write there as soon as kcp has applied
the permission claims that the binding accepts. The binding owns the configurations, so kcp deletes them with it; after
that, the server has no right to.
"""

import hashlib
import hmac
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fleethook.cluster.kubernetes.watched_resources import (
    MUTATING_CONFIGURATIONS,
    VALIDATING_CONFIGURATIONS,
    WatchedResource,
)
from fleethook.cluster.registration.rule_webhooks_and_outage import SERVER_ANNOTATION
from fleethook.model.json import JSONObject, as_object, as_text
from fleethook.model.kcp import API_BINDING, PATH_ANNOTATION, cluster_of

CONSUMERS_SECRET: Final = "fleethook-consumers"  # noqa: S105 - its name
"""The Secret with the key of the tokens, in the namespace of the server."""
CONFIGURATIONS: Final = (VALIDATING_CONFIGURATIONS, MUTATING_CONFIGURATIONS)
WRITE_VERBS: Final = ("get", "list", "watch", "create", "update", "delete")
"""The verbs that the server needs for the configurations in workspaces: those of the claims, and its own rights."""

ResourceName = tuple[str, str]
"""The group and the plural."""


class Consumer(NamedTuple):
    """A workspace with a binding to the export.

    Attributes:
        cluster: The name of its logical cluster.
        path: Its path, ``""`` if it is not known.
        owners: The references to its bindings, for the objects that they own.
        states: The state of each permission claim that a binding names: ``Accepted`` or ``Rejected``.
        applied: The claims that kcp has applied.
        complete: Those of them that have no selector.
        problem: Why kcp has not bound the export, ``""`` if it has.
    """

    cluster: str
    path: str
    owners: tuple[JSONObject, ...]
    states: Mapping[ResourceName, str]
    applied: frozenset[ResourceName]
    complete: frozenset[ResourceName]
    problem: str

    @property
    def name(self) -> str:
        """The path, if it is known, and the cluster, because an administrator of the workspace can write the path."""
        return f"{self.path} ({self.cluster})" if self.path else self.cluster


def read_consumer(bindings: Iterable[JSONObject]) -> Consumer | None:
    """Return the consumer with these bindings of one workspace, None if all of them are being deleted."""
    kept = [binding for binding in bindings if not binding["metadata"].get("deletionTimestamp")]
    if not kept:
        return None
    kept.sort(key=lambda one: as_text(one["metadata"]["name"]))
    claims = [as_object(claim) for each in kept for claim in as_object(each.get("spec")).get("permissionClaims") or ()]
    applied = [
        as_object(claim)
        for each in kept
        for claim in as_object(each.get("status")).get("appliedPermissionClaims") or ()
    ]
    problems = [_describe_binding(one) for one in kept]
    return Consumer(
        cluster_of(kept[0]),
        as_text(as_object(kept[0]["metadata"].get("annotations")).get(PATH_ANNOTATION)),
        tuple(_refer_to(one) for one in kept),
        {_name(claim): as_text(claim.get("state")) for claim in claims},
        frozenset(map(_name, applied)),
        # v1alpha1 says `all`, v1alpha2 `selector.matchAll`.
        frozenset(_name(one) for one in applied if one.get("all") or as_object(one.get("selector")).get("matchAll")),
        "" if "" in problems else problems[0],
    )


def _name(claim: Mapping[str, Any]) -> ResourceName:
    return as_text(claim.get("group")), as_text(claim.get("resource"))


def _refer_to(binding: JSONObject) -> JSONObject:
    metadata = binding["metadata"]
    return {
        "apiVersion": f"{API_BINDING.group}/v1alpha2",
        "kind": API_BINDING.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def _describe_binding(binding: JSONObject) -> str:
    """Return why kcp has not bound an export, ``""`` if it has."""
    status = as_object(binding.get("status"))
    if status.get("phase") == "Bound":
        return ""
    conditions = [as_object(condition) for condition in status.get("conditions") or ()]
    reasons = [as_text(condition.get("message")) for condition in conditions if condition.get("status") == "False"]
    detail = "; ".join(dict.fromkeys(filter(None, reasons)))
    phase = as_text(status.get("phase")) or "not seen by kcp yet"
    return f"its APIBinding {binding['metadata']['name']} is not bound ({phase}){f': {detail}' if detail else ''}"


def describe_state(consumer: Consumer, needed: Iterable[ResourceName], *, complete: bool = False) -> tuple[str, str]:
    """Return the state of a consumer, and why the server may not use some resources there, ``""`` if it may.

    Args:
        consumer: The consumer.
        needed: The resources; without any, those of configurations.
        complete: Whether the server needs all objects of the resources.
    """
    if consumer.problem:
        return "unbound", consumer.problem
    claims = [*needed] or [(resource.group, resource.plural) for resource in CONFIGURATIONS]
    missing = [claim for claim in claims if claim not in (consumer.complete if complete else consumer.applied)]
    if missing:
        return "unaccepted", "; ".join(_describe_claim(consumer, one) for one in missing)
    return "covered", ""


def judge_bindings(bindings: Iterable[JSONObject], covered: Collection[str]) -> list[tuple[Consumer, str]]:
    """Return each consumer with the reason why rules do not cover it, ``""`` if they do.

    Args:
        bindings: The APIBindings of all consumers.
        covered: The logical clusters that have a configuration of the server.
    """
    by_cluster: dict[str, list[JSONObject]] = {}
    for binding in bindings:
        by_cluster.setdefault(cluster_of(binding), []).append(binding)
    consumers = sorted(filter(None, map(read_consumer, by_cluster.values())), key=lambda one: one.name)
    unwritten = "it has no webhook configuration: run the server with --register, and read its /readyz"
    return [(one, describe_state(one, ())[1] or ("" if one.cluster in covered else unwritten)) for one in consumers]


def _describe_claim(consumer: Consumer, claim: ResourceName) -> str:
    name = ".".join(filter(None, reversed(claim)))
    match consumer.states.get(claim):
        case None:
            return f"its APIBinding accepts no permission claim for {name}, or the APIExport has none"
        case "Accepted" if claim in consumer.applied:
            return f"its APIBinding accepts the permission claim for {name} only for some objects"
        case "Accepted":
            return f"kcp has not applied the permission claim for {name}"
        case state:
            return f"its APIBinding has the permission claim for {name} in state {state}"


def name_configuration(export: str) -> str:
    """Return the name of both configurations; no server in the workspace of a consumer uses it for itself."""
    return f"fleethook-{export}"


class Write(NamedTuple):
    """A request that changes a configuration of a consumer; the path has no cluster."""

    method: str
    path: str
    body: JSONObject | None


def list_writes(consumer: Consumer, wanted: Sequence[JSONObject], present: Mapping[str, JSONObject]) -> list[Write]:
    """Return the requests after which a consumer has the wanted configurations.

    Args:
        consumer: The consumer.
        wanted: The configurations with ``caBundle``; one without webhooks must not exist.
        present: Those of the consumer with the same names, by kind.
    """
    writes = []
    for one in wanted:
        resource = find_resource(one["kind"])
        stored = present.get(one["kind"])
        metadata = {**one["metadata"], "ownerReferences": [dict(owner) for owner in consumer.owners]}
        if not one["webhooks"]:
            if stored is not None:
                writes.append(Write("DELETE", resource.in_namespace("", metadata["name"]), None))
        elif stored is None:
            writes.append(Write("POST", resource.path, {**one, "metadata": metadata}))
        elif not _matches(stored, one, metadata):
            former = stored["metadata"]
            merged = {
                member: {**as_object(former.get(member)), **as_object(metadata.get(member))}
                for member in ("labels", "annotations")
            }
            # kcp replaces only an object of which the request has the resourceVersion, and has labels of its own.
            body = {**one, "metadata": {**former, **metadata, **merged}}
            writes.append(Write("PUT", resource.in_namespace("", metadata["name"]), body))
    return writes


def find_resource(kind: str) -> WatchedResource:
    """Return the resource of configurations of a kind."""
    return next(resource for resource in CONFIGURATIONS if resource.kind == kind)


def _matches(stored: JSONObject, wanted: JSONObject, metadata: JSONObject) -> bool:
    """Return whether a stored configuration has the wanted webhooks, owners, labels and annotations."""
    former = stored["metadata"]
    return (
        _drop_empty(stored.get("webhooks")) == _drop_empty(wanted["webhooks"])
        and former.get("ownerReferences") == metadata["ownerReferences"]
        and all(
            as_object(metadata.get(member)).items() <= as_object(former.get(member)).items()
            for member in ("labels", "annotations")
        )
    )


def _drop_empty(webhooks: Any) -> list[JSONObject]:
    """Return webhooks without empty lists, which kcp does not store."""
    return [{name: value for name, value in webhook.items() if value != []} for webhook in webhooks or ()]


def build_token(key: bytes, cluster: str) -> str:
    """Return the last segment of the URL that only the configurations of one consumer have."""
    return hmac.new(key, cluster.encode(), hashlib.sha256).hexdigest()


def is_ours(configuration: JSONObject) -> bool:
    """Return whether a server of fleethook maintains a configuration for rules."""
    metadata = as_object(configuration.get("metadata"))
    return SERVER_ANNOTATION in as_object(metadata.get("annotations"))
