"""What can be found in webhook configurations, and how bad each of it is."""

from typing import Final, Literal, NamedTuple

import msgspec

Level = Literal["error", "warning"]

CODES: Final[dict[str, Level]] = {
    "invalid": "error",  # an apiserver refuses the configuration
    "odd": "warning",  # an apiserver accepts it, and nobody can have meant it
    "system-cluster": "error",  # it is where kcp never looks
    "no-rules": "error",  # nothing says what the webhook is about
    "exempt-kinds": "error",  # a rule is about what webhooks are never asked about
    "scope-mismatch": "error",  # a rule is about the scope that its resources do not have
    "unserved-resource": "warning",  # nothing that is known serves what a rule is about
    "no-connect": "warning",  # a rule is about connecting to what nobody connects to
    "selector-contradiction": "error",  # no labels are selected
    "condition-false": "error",  # a condition holds for no request
    "condition-operation": "error",  # a condition asks for an operation that no rule has
    "shadowed": "error",  # the webhooks of another cluster are asked instead
    "service-in-logical-cluster": "error",  # there is no network to find the Service in
    "duplicate-call": "warning",  # the same endpoint is asked the same twice
    "budget": "warning",  # the mutating webhooks may take more time than there is
    "slow-ignored": "warning",  # a failure that does not matter costs a lot of time
    "ignored-side-effects": "warning",  # a failure that does not matter may have done something
    "order-name": "warning",  # a name that is made for its place in the order
    "order-labels": "warning",  # whether a webhook is asked is up to the one before it
    "self-lockout": "error",  # a webhook that is down keeps itself from coming up
    "binding-ambiguous": "error",
    "binding-nameless": "error",
    "binding-unknown": "error",
    "binding-dangling": "warning",
    "binding-unbound": "warning",
}
"""Every code; an error is what cannot do what it says, a warning what may be meant."""


class Issue(NamedTuple):
    """What a rule has found, and what to do about it."""

    code: str
    text: str


class Finding(msgspec.Struct, frozen=True):
    """What has been found, and where."""

    level: Level
    code: str
    cluster: str
    kind: str
    """Of the object: one of the two kinds of configurations, or APIBinding."""
    configuration: str
    """The name of the object."""
    webhook: str
    """``""`` where it is about the whole object."""
    text: str
    place: str = ""
    """File and line, where that is known."""
