"""What an expression may ask an authorizer, as values: asking the API server is somebody else's work."""

from collections.abc import Mapping
from typing import NamedTuple


class AccessQuestion(NamedTuple):
    """One check of the ``authorizer`` variable: may this user do this?

    Either ``path`` is set (a non-resource check) or the resource attributes are (upstream:
    k8s.io/apiserver/pkg/cel/library/authz.go). ``extra`` has its keys in order, so that equal questions are equal.
    """

    user: str
    verb: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    path: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


class AccessDecision(NamedTuple):
    """An authorizer's answer. ``error`` is the text of what kept it from deciding, if anything did."""

    allowed: bool
    reason: str = ""
    error: str = ""


AccessDecisions = Mapping[AccessQuestion, AccessDecision]
