"""Reports unknown fields of an overrider or subject, with a suggestion for the field that the user probably meant."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from fleethook.engines.overrider.rules.finding import Finding
from fleethook.model.formats.spelling import nearest
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
    **dict.fromkeys(("image", "replicas", "env", "args", "resources", "volumes"), "an item"),
    **dict.fromkeys(("volumeMounts", "nodeSelector", "tolerations", "initialReplicas", "leave"), "an item"),
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
    return f"; did you mean {near}?" if near else f"; the fields are {', '.join(known)}"
