"""The codes of lint findings about webhooks, and their levels.

`fleethook.engines.overrider.rules.finding` has those of overriders.
"""

from typing import Final, Literal, NamedTuple

import msgspec

Level = Literal["error", "warning"]

CODES: Final[dict[str, Level]] = {
    "invalid": "error",
    "suspicious": "warning",
    "system-cluster": "error",
    "no-rules": "error",
    "exempt-kinds": "error",
    "scope-mismatch": "error",
    "unserved-resource": "warning",
    "unconverted-version": "error",
    "no-connect": "warning",
    "selector-contradiction": "error",
    "selector-operation": "error",
    "condition-false": "error",
    "condition-operation": "error",
    "condition-error": "error",
    "unsupported-operation": "error",
    "expired-authority": "error",
    "untrusted-certificate": "error",
    "slow-leases": "warning",
    "shadowed": "error",
    "service-in-logical-cluster": "error",
    "duplicate-call": "warning",
    "budget": "warning",
    "slow-ignored": "warning",
    "ignored-side-effects": "warning",
    "order-name": "warning",
    "order-labels": "warning",
    "self-lockout": "error",
    "binding-ambiguous": "error",
    "binding-nameless": "error",
    "binding-unknown": "error",
    "binding-dangling": "warning",
    "binding-unbound": "warning",
}
"""The level of each code: an error cannot work as written, a warning may be intended."""

MEANINGS: Final[dict[str, str]] = {
    "invalid": "An apiserver refuses the configuration. The message is the apiserver's.",
    "suspicious": "An apiserver accepts the configuration, but it is likely a mistake.",
    "system-cluster": "The configuration is in a logical cluster of kcp whose configurations kcp ignores.",
    "no-rules": "The webhook has no rules, so no request is sent to it.",
    "exempt-kinds": "A rule matches kinds for which webhooks are never called, such as webhook configurations.",
    "scope-mismatch": "The scope of a rule excludes its resources, for example `Cluster` for Deployments.",
    "unserved-resource": "No known API serves a resource of a rule. Check its group, version and plural name.",
    "unconverted-version": "A rule with `matchPolicy: Equivalent` also matches other versions of a built-in kind, "
    "which fleethook does not convert. Name all versions.",
    "no-connect": "A rule has the operation CONNECT for resources that do not support it.",
    "selector-contradiction": "The requirements of a selector contradict each other, so it matches no object.",
    "selector-operation": "A rule has CONNECT, whose requests have no object with labels for the objectSelector.",
    "condition-false": "A match condition is always false, or one of several is, so no request is sent to the webhook.",
    "condition-operation": "A match condition requires an operation that no rule has.",
    "condition-error": "A match condition has an error for each request of an operation: `object` is null for DELETE, "
    "`oldObject` for CREATE, and `namespaceObject` always. Or its constants have one, such as `1/0 == 1`.",
    "unsupported-operation": "A rule has no operation that its resources support, such as CREATE for `pods/status`.",
    "expired-authority": "All certificates of the caBundle have expired, or are not valid yet, so every call fails.",
    "untrusted-certificate": "The caBundle accepts no certificate that a Secret of the files has for the host.",
    "slow-leases": "The webhook gets Leases. While it is slow, components lose their leader election, and nodes become "
    "NotReady.",
    "shadowed": "The resource comes from another logical cluster, whose webhooks are called instead.",
    "service-in-logical-cluster": "A logical cluster has no network with the Service of `clientConfig`. Give a URL.",
    "duplicate-call": "Two webhooks call the same endpoint for the same requests, or two admission rules in Python "
    "decide the same about them.",
    "budget": "The timeouts of the mutating webhooks for one resource add up to more than an apiserver waits.",
    "slow-ignored": "While the webhook is down, each request waits for its timeout and is then admitted without it.",
    "ignored-side-effects": "The webhook has side effects and `failurePolicy: Ignore`. After a timeout, nobody knows "
    "whether the side effect of an admitted request happened.",
    "order-name": "The name is chosen for its place in the order of calls, which a new configuration can change.",
    "order-labels": "A selector or condition depends on labels that an earlier mutating webhook may change.",
    "self-lockout": "The webhook must admit its own pods, but cannot while it is down. Exclude its namespace.",
    "binding-ambiguous": "Several APIBindings of one logical cluster list the same resource.",
    "binding-nameless": "The APIBinding does not name the logical cluster of its APIExport.",
    "binding-unknown": "The objects have no logical cluster of the name in the APIBinding.",
    "binding-dangling": "The APIExport of the APIBinding is gone. The webhooks of its cluster are still called.",
    "binding-unbound": "The APIBinding has bound nothing yet. Requests for its resources are refused until it has.",
}
"""The meaning of each code, for the documentation."""


class Issue(NamedTuple):
    """One issue, with its remedy."""

    code: str
    text: str


class WebhookFinding(msgspec.Struct, frozen=True):
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
