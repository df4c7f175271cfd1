"""Validates the items of an entry: each has exactly one member, with its types and required fields."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fleethook.engines.overrider.entries.items import REPLICAS
from fleethook.engines.overrider.entries.pool_token import misspelled_token, misspelled_tokens, token_problem
from fleethook.engines.overrider.entries.protected_fields import key_owner
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.unknown_fields import find_unknown_fields
from fleethook.engines.overrider.rules.value_shapes import (
    Check,
    Shape,
    any_object,
    boolean,
    integer,
    list_of,
    map_of,
    mistyped,
    quantity,
    replicas_problem,
    text,
)
from fleethook.engines.overrider.schema.violations import load_choices
from fleethook.model.formats.image_reference import image_problem
from fleethook.model.formats.names import label_key_problem, label_value_problem
from fleethook.model.json import JSON, as_object
from fleethook.model.openyurt import NODEPOOL_TOKEN

# Images are checked with the node pools that the entry lists. This name represents the node pools of "*".
_SAMPLE_POOL: Final = "pool"

# k8s.io/api/core/v1 v0.36. The check of the rendered workload validates the objects inside.
_ENV_VAR: Final = Shape("an environment variable", {"name": text, "value": text, "valueFrom": any_object}, ("name",))
_VOLUME_MOUNT: Final = Shape(
    "a volume mount",
    {
        **dict.fromkeys(("name", "mountPath", "subPath", "subPathExpr", "mountPropagation", "recursiveReadOnly"), text),
        "readOnly": boolean,
    },
    ("name", "mountPath"),
)
_TOLERATION: Final = Shape(
    "a toleration",
    {**dict.fromkeys(("key", "operator", "value", "effect"), text), "tolerationSeconds": integer},
)
_VOLUME: Final = Shape(
    "a volume", {"name": text, **dict.fromkeys(sorted(load_choices()["core.v1.Volume"].members), any_object)}, ("name",)
)
_RESOURCES: Final = Shape("resources", dict.fromkeys(("requests", "limits"), map_of(quantity)))


def _make_container_shape(member: str, check: Check) -> Shape:
    return Shape(f"an item of {member}", {"containerName": text, member: check}, ("containerName", member))


def _check_replicas(value: JSON, field: str) -> Iterator[Finding]:
    if (problem := replicas_problem(value)) is not None:
        yield Finding("invalid", field, problem)


def _check_leave(value: JSON, field: str) -> Iterator[Finding]:
    if not isinstance(value, list):
        yield mistyped(field, "a list of fields, such as [replicas]", value)
        return
    for number, name in enumerate(value):
        if name != REPLICAS:
            text = f"must be {REPLICAS}, the only field that can be left to another owner, not {name!r}"
            yield Finding("unsupported", f"{field}[{number}]", text)
    if not value:
        yield Finding("no-effect", field, f"is empty, so the item leaves nothing: write [{REPLICAS}]")


def _check_labels(value: JSON, field: str) -> Iterator[Finding]:
    yield from _check_node_selector(value, field)
    yield from _check_owned_keys(value, field)


def _check_annotations(value: JSON, field: str) -> Iterator[Finding]:
    yield from map_of(_check_nullable_text)(value, field)
    yield from _check_keys(value, field)
    yield from _check_owned_keys(value, field)


def _check_node_selector(value: JSON, field: str) -> Iterator[Finding]:
    yield from map_of(_check_nullable_label)(value, field)
    yield from _check_keys(value, field)


def _check_owned_keys(value: JSON, field: str) -> Iterator[Finding]:
    for key in as_object(value):
        if owner := key_owner(key):
            yield Finding("forbidden", f"{field}.{key}", f"is written by {owner} only; overrides may not change it")


def _check_keys(value: JSON, field: str) -> Iterator[Finding]:
    for key in as_object(value):
        path = f"{field}.{key}"
        if NODEPOOL_TOKEN not in key and (problem := label_key_problem(key)) is not None:
            yield Finding("invalid", path, problem)


def _check_nullable_text(value: JSON, field: str) -> Iterator[Finding]:
    if value is not None:
        yield from text(value, field)


def _check_nullable_label(value: JSON, field: str) -> Iterator[Finding]:
    yield from _check_nullable_text(value, field)
    if isinstance(value, str) and "{" not in value and (problem := label_value_problem(value)) is not None:
        yield Finding("invalid", field, problem)


_MEMBERS: Final[Mapping[str, Check]] = {
    "image": Shape("image", {"containerName": text, "imageClaim": text}, ("containerName", "imageClaim")).check,
    "replicas": _check_replicas,
    "initialReplicas": _check_replicas,
    "leave": _check_leave,
    "env": _make_container_shape("env", list_of(_ENV_VAR.check)).check,
    "args": _make_container_shape("args", list_of(text)).check,
    "resources": _make_container_shape("resources", _RESOURCES.check).check,
    "volumeMounts": _make_container_shape("volumeMounts", list_of(_VOLUME_MOUNT.check)).check,
    "volumes": list_of(_VOLUME.check),
    "tolerations": list_of(_TOLERATION.check),
    "nodeSelector": _check_node_selector,
    "annotations": _check_annotations,
    "labels": _check_labels,
}
_NO_MEMBER_MESSAGE: Final = (
    f"must have exactly one member of {', '.join(_MEMBERS)}, and has none. If you wrote one, the installed "
    "CustomResourceDefinition does not know it and removed it (upstream's knows image and replicas only): install "
    "fleethook's"
)


def check_item(item: JSON, field: str, *, pools: Sequence[str]) -> Iterator[Finding]:
    """Yield the findings about an item.

    Args:
        item: The item as written.
        field: Its path.
        pools: The node pools that the entry names. Each replaces ``{{nodepool}}`` in images for the check.
    """
    if not isinstance(item, dict):
        yield mistyped(field, "an object", item)
        return
    yield from find_unknown_fields(item, tuple(_MEMBERS), field=field, owner="an item")
    given = [member for member in _MEMBERS if item.get(member) is not None]
    if len(given) > 1:
        yield Finding(
            "invalid", field, f"must have exactly one member, not {' and '.join(given)}: make an item of each"
        )
    elif not given and not item.keys() - _MEMBERS.keys():
        yield Finding("required", field, _NO_MEMBER_MESSAGE)
    for member in given:
        yield from _MEMBERS[member](item[member], f"{field}.{member}")
        if member != "image":
            yield from misspelled_tokens(item[member], f"{field}.{member}")
    yield from _check_image_claim(as_object(item.get("image")), f"{field}.image.imageClaim", pools)


def _check_image_claim(image: Mapping[str, JSON], field: str, pools: Sequence[str]) -> Iterator[Finding]:
    claim = image.get("imageClaim")
    if isinstance(claim, str) and claim.strip():
        yield from check_image(claim, field, pools=pools)


def check_image(image: str, field: str, *, pools: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding if no registry accepts an image reference.

    Args:
        image: The reference, which may contain ``{{nodepool}}``.
        field: Its path.
        pools: The names that replace ``{{nodepool}}``. If empty, a sample name replaces it.
    """
    if (token := misspelled_token(image)) is not None:
        yield Finding("image", field, token_problem(token))
        return
    if NODEPOOL_TOKEN not in image:
        if (problem := image_problem(image)) is not None:
            yield Finding("image", field, f"{image!r} is not an image: {problem}")
        return
    for pool in pools or (_SAMPLE_POOL,):
        if (problem := image_problem(image.replace(NODEPOOL_TOKEN, pool))) is not None:
            yield Finding("image", field, f"{image!r} is not an image for node pool {pool}: {problem}")
            return
