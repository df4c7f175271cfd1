"""The rights that the server needs, for ``fleethook doctor``. No I/O."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from fleethook.cli.doctor.doctor_findings import Diagnosis, Level
from fleethook.cluster.kubernetes.resources import (
    CUSTOMIZATIONS,
    HOOK_CONFIGURATIONS,
    RESOURCES,
    WORKLOADS,
    WatchedResource,
)
from fleethook.cluster.registration.webhooks import CONFIGURATION_NAME
from fleethook.model.json import JSONObject

_CHECK: Final = "rights"


class Right(NamedTuple):
    """A right of the server's service account.

    Attributes:
        verb: The verb, such as ``list``.
        group: API group.
        resource: Resource, with ``/SUBRESOURCE`` for a subresource.
        name: Name of the only object, ``""`` for all.
        namespace: Namespace of the right, ``""`` for all.
        leader: Whether only the replica that leads the controller needs it.
    """

    verb: str
    group: str
    resource: str
    name: str = ""
    namespace: str = ""
    leader: bool = False

    def attributes(self) -> JSONObject:
        """Return ``resourceAttributes`` of a SubjectAccessReview."""
        resource, _, subresource = self.resource.partition("/")
        found = {"verb": self.verb, "group": self.group, "resource": resource, "subresource": subresource}
        return {key: text for key, text in {**found, "name": self.name, "namespace": self.namespace}.items() if text}


def list_rights(engines: Collection[str], namespace: str) -> list[Right]:
    """Return the rights that a server with these engines needs, the namespace of its Lease included."""
    found: list[Right] = []
    if "overrider" in engines:
        found += _follow(RESOURCES)
        found += [Right("get", one.group, one.plural) for one in RESOURCES]
        found += [
            Right(verb, one.group, one.plural, leader=True)
            for one in WORKLOADS
            for verb in ("get", "list", "watch", "patch")
        ]
        # Policies of deleted overriders, and of an earlier mode, are deleted in every mode.
        found += [
            Right(verb, "admissionregistration.k8s.io", plural, leader=True)
            for plural in ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
            for verb in ("list", "delete")
        ]
        found += [
            Right("patch", RESOURCES[0].group, "yurtappoverriders/status", leader=True),
            Right("create", "", "events", leader=True),
            *(
                Right(
                    "patch",
                    "admissionregistration.k8s.io",
                    "mutatingwebhookconfigurations",
                    CONFIGURATION_NAME,
                    leader=True,
                ),
            ),
        ]
    if "interpret" in engines:
        found += _follow((*HOOK_CONFIGURATIONS, CUSTOMIZATIONS))
    if "overrider" in engines or "interpret" in engines:
        found += [Right(verb, "apiextensions.k8s.io", "customresourcedefinitions") for verb in ("list", "watch")]
        found += [
            Right(verb, "coordination.k8s.io", "leases", namespace=namespace, name=name, leader=True)
            for verb, name in (("create", ""), ("get", CONFIGURATION_NAME), ("update", CONFIGURATION_NAME))
        ]
    return found


def _follow(resources: Sequence[WatchedResource]) -> Iterator[Right]:
    return (Right(verb, one.group, one.plural) for one in resources for verb in ("list", "watch"))


def judge_rights(account: str, missing: Sequence[Right], checked: int) -> Iterator[Diagnosis]:
    """Return the findings about the missing rights of a service account, ``NAMESPACE/NAME``."""
    for leader in (False, True):
        lacking = [one for one in missing if one.leader is leader]
        if lacking:
            level: Level = "warning" if leader else "error"
            use = "the controller, if it is on, needs" if leader else "the server needs"
            text = f"the service account {account} must not: {describe_rights(lacking)}"
            yield Diagnosis(level, _CHECK, text, f"{use} these rights: compare its roles with the chart's rbac.yaml")
    if not missing:
        yield Diagnosis("ok", _CHECK, f"the service account {account} has all {checked} rights that were checked")


def describe_rights(rights: Sequence[Right]) -> str:
    """Return the verbs and resources of rights, for a message."""
    return ", ".join(f"{one.verb} {one.resource}{f'.{one.group}' if one.group else ''}" for one in rights)
