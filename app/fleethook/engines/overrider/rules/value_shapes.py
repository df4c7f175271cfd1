"""Checks a value against a shape: types, required and unknown members, with messages that suggest a correction."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

from fleethook.engines.overrider.rules.finding import Finding
from fleethook.model.formats.text import nearest
from fleethook.model.json import JSON

OVERRIDER: Final = ("apiVersion", "kind", "metadata", "subject", "entries", "status")
SUBJECT: Final = ("apiVersion", "kind", "name")
ENTRY: Final = ("pools", "poolSelector", "items", "patches")
SELECTOR: Final = ("matchLabels", "matchExpressions")
PATCH: Final = ("path", "operation", "value")
# k8s.io/apimachinery ObjectMeta.
METADATA: Final = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)

# Names of other tools and APIs for a field.
_OTHER_NAMES: Final = {
    "op": "operation",
    "nodepools": "pools",
    "nodePools": "pools",
    "nodepoolSelector": "poolSelector",
}
# The object of each field, for fields with a wrong indentation.
_PARENTS: Final = {
    **dict.fromkeys(ENTRY, "an entry"),
    **dict.fromkeys(PATCH, "a patch"),
    **dict.fromkeys(SELECTOR, "poolSelector"),
    **dict.fromkeys(("image", "replicas", "initialReplicas", "leave"), "an item"),
    **dict.fromkeys(("containerName", "imageClaim"), "image"),
    **dict.fromkeys(("namespace", "labels", "annotations"), "metadata"),
    "name": "metadata or subject",
    "entries": "the top level",
    "subject": "the top level",
}


def find_unknown_fields(
    value: Mapping[str, JSON], known: Collection[str], *, field: str, owner: str
) -> Iterator[Finding]:
    """Yield a finding for each unknown field of ``value``.

    Args:
        value: The object as written.
        known: The names of its fields.
        field: The path of the object, ``""`` for the document itself.
        owner: The object in words, such as "an entry".
    """
    for member in value:
        if member not in known:
            path = f"{field}.{member}" if field else member
            yield Finding("unknown-field", path, f"is not a field of {owner}{_describe_remedy(member, known)}")


def find_meant_fields(value: Mapping[str, JSON], known: Collection[str]) -> frozenset[str]:
    """Return the known fields that misspelled ones probably mean, so that they are not reported as missing, too."""
    unknown = [member for member in value if member not in known]
    return frozenset(_OTHER_NAMES.get(member) or nearest(member, known) or member for member in unknown)


def _describe_remedy(member: str, known: Collection[str]) -> str:
    if (other := _OTHER_NAMES.get(member)) in known:
        return f": use {other}"
    near = nearest(member, known)
    if near is not None and near.casefold() == member.casefold():
        return f": write {near}"
    if member == "spec":
        return ": there is no spec, so move its members to the top level"
    if tuple(known) == SELECTOR and near is None:
        return ": put labels into matchLabels"
    if home := _PARENTS.get(member):
        return f": it belongs in {home}, check the indentation"
    others = ", and a patch changes any other field of a workload" if "leave" in known else ""
    return f"; did you mean {near}?" if near else f"; the fields are {', '.join(known)}{others}"


MAX_REPLICAS: Final = 2**31 - 1

Check = Callable[[JSON, str], Iterator[Finding]]
"""Yields the mistakes in a value, given its path."""


class Shape(NamedTuple):
    """An object with named members."""

    owner: str
    """The object in messages, such as "an environment variable"."""
    members: Mapping[str, Check]
    required: tuple[str, ...] = ()

    def check(self, value: JSON, field: str) -> Iterator[Finding]:
        """Yield wrong types, missing and unknown members. Null counts as absent, as in the Kubernetes API."""
        if not isinstance(value, dict):
            yield mistyped(field, "an object", value)
            return
        meant = find_meant_fields(value, self.members)
        for member in self.required:
            if _is_empty(value.get(member)) and member not in meant:
                yield Finding("required", f"{field}.{member}", "is required")
        for member, check in self.members.items():
            if not _is_empty(value.get(member)):
                yield from check(value[member], f"{field}.{member}")
        yield from find_unknown_fields(value, tuple(self.members), field=field, owner=self.owner)


def _is_empty(value: JSON) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def mistyped(field: str, expected: str, value: JSON) -> Finding:
    """Return the finding that a value has another type than ``expected``."""
    return Finding("invalid", field, f"must be {expected}, not {type_name(value)}")


def type_name(value: JSON) -> str:
    """Return the type of a JSON value in words."""
    names = {str: "text", list: "a list", dict: "an object", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def quote_advice(name: JSON) -> str:
    """Return the end of a message about a name that YAML does not read as text, ``""`` for other values."""
    if isinstance(name, bool):
        words, sample = ("yes, on and true", "yes") if name else ("no, off and false", "no")
        return f': YAML reads {words} as {str(name).lower()}, so quote the name, as in "{sample}"'
    return f': quote it, as in "{name}"' if isinstance(name, int | float) else ""


def replicas_problem(value: JSON) -> str | None:
    """Return the problem of a number of replicas, None if it is valid."""
    if type(value) is int and 0 <= value <= MAX_REPLICAS:
        return None
    limit = f" to {MAX_REPLICAS}" if type(value) is int and value > 0 else ""
    hint = "; remove the quotes" if isinstance(value, str) and value.isdecimal() else ""
    written = repr(value) if isinstance(value, str | int | float) and type(value) is not bool else type_name(value)
    return f"must be a whole number from 0{limit}, not {written}{hint}"


def text(value: JSON, field: str) -> Iterator[Finding]:
    """Yield a finding if a value is not text. YAML reads unquoted numbers and words such as ``yes`` as other types."""
    if isinstance(value, str):
        return
    if value is None or isinstance(value, (dict, list)):
        yield mistyped(field, "text", value)
        return
    written = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    kind = "" if isinstance(value, bool) else "the number "
    member = field.rpartition(".")[2]
    quoted = f'"{written}"' if member.endswith("]") else f'{member}: "{written}"'
    yield Finding("invalid", field, f"must be text, not {kind}{written}: quote it, as in {quoted}")
