"""The codes of lint findings, and their levels."""

from typing import Final, Literal, NamedTuple

import msgspec

Level = Literal["error", "warning"]

CODES: Final[dict[str, Level]] = {
    "invalid": "error",  # an apiserver refuses the configuration
    "suspicious": "warning",  # an apiserver accepts the configuration, but it is likely a mistake
    "system-cluster": "error",  # kcp ignores the configurations of its cluster
    "no-rules": "error",  # the webhook has no rules
    "exempt-kinds": "error",  # a rule matches kinds for which webhooks are never called
    "scope-mismatch": "error",  # the scope of a rule excludes its resources
    "unserved-resource": "warning",  # no known API serves a resource of a rule
    "no-connect": "warning",  # a rule has CONNECT for resources that do not support it
    "selector-contradiction": "error",  # a selector matches no labels
    "condition-false": "error",  # a condition is always false
    "condition-operation": "error",  # a condition requires an operation that no rule has
    "shadowed": "error",  # the webhooks of another cluster are called instead
    "service-in-logical-cluster": "error",  # a logical cluster has no network in which to find the Service
    "duplicate-call": "warning",  # two webhooks call the same endpoint for the same requests
    "budget": "warning",  # the timeouts of the mutating webhooks exceed an apiserver's budget
    "slow-ignored": "warning",  # an ignored failure delays requests
    "ignored-side-effects": "warning",  # an ignored failure may have side effects
    "order-name": "warning",  # a name is chosen for its order
    "order-labels": "warning",  # a filter depends on the changes of an earlier webhook
    "self-lockout": "error",  # a webhook that is down prevents its own start
    "binding-ambiguous": "error",
    "binding-nameless": "error",
    "binding-unknown": "error",
    "binding-dangling": "warning",
    "binding-unbound": "warning",
}
"""The level of each code: an error cannot work as written, a warning may be intended."""


class Issue(NamedTuple):
    """One issue, with its remedy."""

    code: str
    text: str


class Finding(msgspec.Struct, frozen=True):
    """An issue, and its place."""

    level: Level
    code: str
    cluster: str
    kind: str
    """The kind of the object: one of the two kinds of configurations, or APIBinding."""
    configuration: str
    """The name of the object."""
    webhook: str
    """The name of the webhook, ``""`` for an issue of the object."""
    text: str
    place: str = ""
    """File and line, ``""`` if unknown."""
