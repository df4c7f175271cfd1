"""Checks of the ``authorizer`` variable and their results, as plain values.

This package never calls an API server. Its caller creates a SubjectAccessReview for each check.
"""

from collections.abc import Mapping
from typing import NamedTuple


class AccessQuestion(NamedTuple):
    """One check of the ``authorizer`` variable (upstream: k8s.io/apiserver/pkg/cel/library/authz.go).

    A non-resource check has a ``path``, a resource check has the resource attributes. ``extra`` is sorted by key, so
    that equal checks compare equal.
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
    """An authorizer's answer. ``error`` is its error message, ``""`` if it decided without an error."""

    allowed: bool
    reason: str = ""
    error: str = ""


AccessDecisions = Mapping[AccessQuestion, AccessDecision]
