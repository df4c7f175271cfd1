"""A finding about a rendered workload."""

from typing import Literal, NamedTuple

Problem = Literal["unknown", "type", "missing", "value", "duplicate"]


class Finding(NamedTuple):
    """A part of a workload that kube-apiserver would refuse or drop."""

    pointer: str
    """The JSON pointer of the member, even if it is missing."""
    problem: Problem
    """``unknown``: the field does not exist and kube-apiserver drops it, unless it is newer than our schema.

    ``type``: the value has a wrong JSON type. ``missing``: a required member is absent. ``value``: the type is right
    and the value is not. ``duplicate``: an earlier element has the same identity.
    """
    message: str
    """The mistake and its correction, without the pointer."""

    def __str__(self) -> str:
        return f"{self.pointer or 'the workload'}: {self.message}"
