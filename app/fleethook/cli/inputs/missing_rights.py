"""The rules of a role that a user lacks, for a message."""

from collections.abc import Collection, Sequence
from typing import Final

from fleethook.cluster.kubernetes.identity import EVERY_CLUSTER
from fleethook.cluster.kubernetes.resources import WatchedResource

_MAX_CLUSTERS: Final = 5
# kcp's RBAC has no opinion on requests to all logical clusters, and its front proxy refuses them: kcp,
# pkg/authorization/local_authorizer.go and pkg/proxy.
_KCP_REMEDY: Final = (
    "use the kubeconfig of a shard, not of the front proxy, with the context shard-base that kcp writes or another "
    "user of system:masters; or have kcp's authorization webhook allow"
)


def describe_missing(
    resources: Sequence[WatchedResource], *, where: Sequence[str], verbs: Sequence[str] = ("list",)
) -> str:
    """Return the rules that allow to list resources, as a sentence with YAML that fits into a role.

    Args:
        resources: Resources that must not be listed.
        where: Paths of the logical clusters of a kcp in which they are listed, such as ``/clusters/*``.
        verbs: The rights that all of them need.
    """
    if EVERY_CLUSTER in where:
        return f"{_KCP_REMEDY}, in {EVERY_CLUSTER}: {_format_rules(list(dict.fromkeys(resources)), verbs)}"
    inside = f" in {', '.join(where[:_MAX_CLUSTERS])}" if where else ""
    resources = list(dict.fromkeys(resources))
    of_cluster = [one for one in resources if one.only is None]
    sentences = []
    if of_cluster:
        rules = _format_rules(of_cluster, verbs)
        sentences.append(f"add to a ClusterRole that is bound to the user{inside}: {rules}")
    for one in resources:
        if one.only is not None:
            rules = _format_rules([one], verbs)
            sentences.append(f"add to a Role in the namespace {one.only[0]} that is bound to the user: {rules}")
    return "; ".join(sentences)


def describe_rules(rights: Collection[tuple[str, str, str]]) -> str:
    """Return the rules of a ClusterRole that give rights, each a group, a resource and a verb, as a sentence."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for group, resource, verb in rights:
        verbs.setdefault((group, resource), set()).add(verb)
    resources: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), given in sorted(verbs.items()):
        resources.setdefault((group, tuple(sorted(given))), []).append(resource)
    rules = ", ".join(_format_rule(group, plurals, given) for (group, given), plurals in resources.items())
    return f"add to a ClusterRole that is bound to the user: {rules}"


def _format_rules(resources: Sequence[WatchedResource], verbs: Sequence[str]) -> str:
    by_group: dict[str, list[str]] = {}
    for one in resources:
        by_group.setdefault(one.group, []).append(one.plural)
    return ", ".join(_format_rule(group, plurals, verbs) for group, plurals in by_group.items())


def _format_rule(group: str, plurals: Sequence[str], verbs: Sequence[str]) -> str:
    return f'{{apiGroups: ["{group}"], resources: [{", ".join(plurals)}], verbs: [{", ".join(verbs)}]}}'
