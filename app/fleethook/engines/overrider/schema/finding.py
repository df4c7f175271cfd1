"""A finding about a rendered workload, and a violation of a rule about one struct of it."""

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


class Violation(NamedTuple):
    """A finding with a place inside the struct that a rule checks."""

    tokens: tuple[str | int, ...]
    """The path of the member in the struct, even if it is missing."""
    message: str
    problem: Problem = "value"
