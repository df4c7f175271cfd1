"""Choices: groups of members of which kube-apiserver accepts one.

Source: Kubernetes v1.36, pkg/apis/core/validation/validation.go and pkg/apis/apps/validation/validation.go.
tests/conformance/workload_rules.yaml has a workload for each choice, with the answer of kube-apiserver.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from fleethook.engines.overrider.schema.go_structs import load_structs
from fleethook.model.json import JSONObject


class Choice(NamedTuple):
    """The members of a struct that exclude each other."""

    members: frozenset[str]
    needed: bool
    """Whether kube-apiserver refuses a struct without any of them."""
    default: str = ""
    """The member that kube-apiserver adds if none is set, ``""`` if it adds none."""


class Discriminated(NamedTuple):
    """A member that is allowed only with certain values of another one, such as ``type``."""

    discriminator: str
    member: str
    values: frozenset[str]
    """The values of the discriminator that allow the member."""
    needed: bool
    """Whether these values need the member."""


_KEYED_SOURCES: Final = frozenset({"configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"})
_CHOICES: Final[Mapping[str, Choice]] = {
    "core.v1.DownwardAPIVolumeFile": Choice(frozenset({"fieldRef", "resourceFieldRef"}), needed=True),
    "core.v1.EnvFromSource": Choice(frozenset({"configMapRef", "secretRef"}), needed=True),
    "core.v1.EnvVar": Choice(frozenset({"value", "valueFrom"}), needed=False),
    "core.v1.EnvVarSource": Choice(_KEYED_SOURCES, needed=True),
    "core.v1.LifecycleHandler": Choice(frozenset({"exec", "httpGet", "sleep", "tcpSocket"}), needed=True),
    "core.v1.PodResourceClaim": Choice(frozenset({"resourceClaimName", "resourceClaimTemplateName"}), needed=True),
    "core.v1.Probe": Choice(frozenset({"exec", "grpc", "httpGet", "tcpSocket"}), needed=True),
    "core.v1.VolumeMount": Choice(frozenset({"subPath", "subPathExpr"}), needed=False),
}
_LOCALHOST: Final = Discriminated("type", "localhostProfile", frozenset({"Localhost"}), needed=True)
_ROLLING: Final = Discriminated("type", "rollingUpdate", frozenset({"RollingUpdate", ""}), needed=False)
DISCRIMINATED: Final[Mapping[str, Discriminated]] = {
    "apps.v1.DeploymentStrategy": _ROLLING,
    "apps.v1.StatefulSetUpdateStrategy": _ROLLING,
    "core.v1.AppArmorProfile": _LOCALHOST,
    "core.v1.SeccompProfile": _LOCALHOST,
}


@cache
def load_choices() -> Mapping[str, Choice]:
    """Return the choices by the names of their structs; each struct has one at most."""
    structs = load_structs()
    sources = frozenset(structs["core.v1.Volume"]) - {"name"}
    projections = frozenset(structs["core.v1.VolumeProjection"])
    return {
        **_CHOICES,
        "core.v1.Volume": Choice(sources, needed=False, default="emptyDir"),
        "core.v1.VolumeProjection": Choice(projections, needed=False),
    }


def find_conflicts(choice: Choice, node: JSONObject) -> Iterator[tuple[str, str]]:
    """Yield the member, ``""`` for the struct, and the message of a violation of a choice.

    Args:
        choice: The choice of the struct.
        node: The struct, without members that are empty.
    """
    given = [name for name in node if name in choice.members]
    if len(given) > 1:
        advice = "remove one of them" if len(given) == 2 else f"keep one of {', '.join(given)}"
        yield given[1], f"may not be set together with {given[0]}: {advice}"
    elif choice.needed and not given:
        yield "", f"must have one of {', '.join(sorted(choice.members))}"


def find_disallowed(rule: Discriminated, node: JSONObject) -> Iterator[tuple[str, str]]:
    """Yield the member and the message of a violation of a rule about a discriminator.

    Args:
        rule: The rule of the struct.
        node: The struct, without members that are empty.
    """
    value, wanted = node.get(rule.discriminator, ""), " or ".join(sorted(rule.values - {""}))
    if rule.member in node and value not in rule.values:
        yield rule.member, f"may only be set if {rule.discriminator} is {wanted}, not {value}"
    elif rule.needed and rule.member not in node and value in rule.values:
        yield rule.member, f"is required if {rule.discriminator} is {wanted}"
