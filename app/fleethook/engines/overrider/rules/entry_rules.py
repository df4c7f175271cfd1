"""Rules for the entries of an overrider: node pools, items and patches. Tweaks of a YurtAppSet v1beta1 share some."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.entries.entry_selection import (
    EVERY_POOL,
    EXCLUDE,
    PoolSelector,
    sample_names,
    selected_names,
)
from fleethook.engines.overrider.entries.patch_paths_and_protected_fields import protected_pointer
from fleethook.engines.overrider.entries.steps_and_limits import ITEMS, LEAVABLE_FIELD, LIMITS, MAX_VALUES
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.image_and_placeholder_rules import (
    OF_OVERRIDERS,
    OF_TWEAKS,
    OUTSIDE_TWEAKS,
    PoolToken,
    check_image,
    misspelled_tokens,
)
from fleethook.model.formats.names_and_labels import validate_selector
from fleethook.model.json import JSON, as_list, count_values
from fleethook.patch import parse_pointer
from fleethook.workload_schema.go_structs import load_structs

SELECTOR: Final = ("matchLabels", "matchExpressions")


class SchemaMistakes(NamedTuple):
    """The fields of an overrider that violate the schema. Rules for entries need values of the right types."""

    places: frozenset[str]
    """The fields with a violation, and the fields around them."""
    with_unknown: frozenset[str]
    """The fields that have unknown members."""


def check_entry(field: str, entry: Mapping[str, JSON], mistakes: SchemaMistakes) -> Iterator[Finding]:
    """Yield the mistakes in an entry: in its selection of node pools, its items and its patches.

    Args:
        field: Its path.
        entry: The entry.
        mistakes: The fields that violate the schema. They have no further findings.
    """
    pools, selector, findings = entry.get("pools"), entry.get("poolSelector"), list[Finding]()
    if f"{field}.pools" not in mistakes.places:
        by_labels = selector is not None or field in mistakes.with_unknown
        findings += _check_pools(f"{field}.pools", pools, by_labels=by_labels)
    if selector is not None and f"{field}.poolSelector" not in mistakes.places:
        findings += _check_selector(f"{field}.poolSelector", selector, pools)
    yield from findings
    samples = sample_names(selected_names(pools))
    for member, check in (("items", check_item), ("patches", check_patch)):
        elements = as_list(entry.get(member))
        if len(elements) > LIMITS.operations:
            text = f"has {len(elements)} {member}, and the limit is {LIMITS.operations}: combine them"
            yield Finding("invalid", f"{field}.{member}", text)
            continue
        for number, element in enumerate(elements):
            place = f"{field}.{member}[{number}]"
            if count_values(element, limit=MAX_VALUES) > MAX_VALUES:
                text = f"has more than {MAX_VALUES} values, which is the limit for one of the {member}: split it"
                yield Finding("invalid", place, text)
            elif place not in mistakes.places:
                yield from check(element, place, pools=samples)
    if not findings and field not in mistakes.places and not entry.get("items") and not entry.get("patches"):
        yield Finding("no-effect", field, "changes nothing: it has neither items nor patches")


def _check_pools(field: str, pools: Sequence[str] | None, *, by_labels: bool) -> Iterator[Finding]:
    if pools is None:
        if not by_labels:
            text = "names no node pool; write '*' for all of them, or poolSelector for some labels"
            yield Finding("required", field, text)
    elif EXCLUDE in pools:
        yield Finding("invalid", f"{field}[{pools.index(EXCLUDE)}]", "must be a pool's name, -name or '*'")
    elif not by_labels and (problem := _selects_nothing(pools)) is not None:
        yield Finding("unused-entry", field, problem)


def _check_selector(field: str, selector: JSON, pools: JSON) -> Iterator[Finding]:
    """Yield the mistakes of a ``poolSelector``."""
    mistakes = [*check_selector(field, selector)]
    yield from mistakes
    if is_empty_selector(selector) and not mistakes:
        text = "is empty, and an empty selector would select every node pool: write pools: ['*'] for that"
        yield Finding("required", field, text)
    elif isinstance(pools, list) and EVERY_POOL in pools:
        yield Finding("no-effect", field, "changes nothing, because pools has '*': remove one of them")


def check_selector(field: str, selector: Mapping[str, JSON]) -> Iterator[Finding]:
    """Yield the mistakes in a label selector whose members have the right types."""
    if count_values(selector, limit=MAX_VALUES) > MAX_VALUES:
        yield Finding("invalid", field, f"has more than {MAX_VALUES} values, which is the limit: split it")
        return
    for pointer, problem in validate_selector(selector, ""):
        path = "".join(f"[{token}]" if token.isdecimal() else f".{token}" for token in pointer.split("/")[1:])
        yield Finding("invalid", f"{field}{path}", problem)


def is_empty_selector(selector: JSON) -> bool:
    """Return whether a label selector has no condition, so that it selects everything."""
    return isinstance(selector, dict) and not any(selector.get(name) for name in SELECTOR)


def _selects_nothing(names: Sequence[JSON]) -> str | None:
    if not names:
        return "is empty, so the entry applies to no node pool"
    if not selected_names(names) and EVERY_POOL not in names:
        return "only excludes node pools, so the entry applies to none; add '*' for all others"
    if EVERY_POOL in names or any(map(PoolSelector({"pools": names}).selects, selected_names(names))):
        return None
    return "excludes every node pool that it names, so the entry applies to none"


_NO_MEMBER_MESSAGE: Final = (
    f"must have exactly one member of {', '.join(ITEMS)}, and has none. If you wrote one, the installed "
    "CustomResourceDefinition does not know it and removed it (upstream's knows image and replicas only): install "
    "fleethook's"
)


def check_item(item: Mapping[str, JSON], field: str, *, pools: Sequence[str]) -> Iterator[Finding]:
    """Yield the findings about an item that has the form of the schema.

    Args:
        item: The item as written.
        field: Its path.
        pools: The node pools that the entry names. Each replaces ``{{nodepool}}`` in images for the check.
    """
    given = [member for member in ITEMS if item.get(member) is not None]
    if len(given) > 1:
        text = f"must have exactly one member, not {' and '.join(given)}: make an item of each"
        yield Finding("invalid", field, text)
    elif not given:
        yield Finding("required", field, _NO_MEMBER_MESSAGE)
    if item.get("leave") == []:
        text = f"is empty, so the item leaves nothing: write [{LEAVABLE_FIELD}]"
        yield Finding("no-effect", f"{field}.leave", text)
    if (image := item.get("image")) is not None:
        yield from check_image(image["imageClaim"], f"{field}.image.imageClaim", pools=pools)


_MAX_REPLICAS: Final = 2**31 - 1


def replicas_problem(value: JSON) -> str | None:
    """Return the problem of a number of replicas, None if it is valid."""
    if type(value) is int and 0 <= value <= _MAX_REPLICAS:
        return None
    return f"must be a whole number from 0 to {_MAX_REPLICAS}, not {value!r}"


_EXAMPLE: Final = "a JSON pointer looks like /spec/replicas"
_INDEXED: Final = re.compile(r"[A-Za-z]+(\[[^\]]*\])+")
_BRACKETS: Final = re.compile(r"\[([^\]]*)\]")
_DOT: Final = re.compile(r"\.(?![^\[]*\])")
_JSONPATH: Final = re.compile(r"\?\(@\.(\w+) *== *[\"']?([^\"')]*)[\"']?\)")
_ROOT: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_HOMES: Final = (
    ("/spec", "apps.v1.DeploymentSpec"),
    ("/spec", "apps.v1.StatefulSetSpec"),
    ("/spec/template/spec", "core.v1.PodSpec"),
    ("/metadata", "meta.v1.ObjectMeta"),
)
_POD_SPEC: Final = ("spec", "template", "spec")
_CONTAINER_LISTS: Final = ("containers", "initContainers")


class PatchForm(NamedTuple):
    """The differences between the patches of overriders and those of tweaks."""

    in_values: PoolToken
    in_paths: PoolToken
    is_extended: bool
    """Whether fleethook applies the patch: paths select elements by name, and some are protected."""


ENTRY_PATCH: Final = PatchForm(OF_OVERRIDERS, OF_OVERRIDERS, is_extended=True)
TWEAK_PATCH: Final = PatchForm(OF_TWEAKS, OUTSIDE_TWEAKS, is_extended=False)
"""OpenYurt applies the patches of tweaks as RFC 6902 has them (workloadmanager/tweaks.go, v1.7.0)."""


def check_patch(
    patch: Mapping[str, JSON], field: str, *, pools: Sequence[str], form: PatchForm = ENTRY_PATCH
) -> Iterator[Finding]:
    """Yield the mistakes in a patch that has the form of the schema.

    Args:
        patch: The patch.
        field: Its path.
        pools: The node pools that the entry or tweak names, for images that contain the token.
        form: The form of the patch.
    """
    yield from _check_value(f"{field}.value", patch, form)
    yield from _check_path(f"{field}.path", patch, form)
    yield from _check_images(f"{field}.value", patch, pools, form.in_values)
    for member, token in (("path", form.in_paths), ("value", form.in_values)):
        yield from misspelled_tokens(patch.get(member), f"{field}.{member}", token)


def _check_value(field: str, patch: Mapping[str, JSON], form: PatchForm) -> Iterator[Finding]:
    operation = patch["operation"]
    # Clients built on Go types send an absent value as null, so null counts as absent in a remove.
    if operation == "remove" and patch.get("value") is not None and form.is_extended:
        yield Finding("forbidden", field, "must be empty when operation is remove")
    elif operation in ("add", "replace") and "value" not in patch:
        yield Finding("required", field, f"is required when operation is {operation}; null unsets")


def _check_path(field: str, patch: Mapping[str, JSON], form: PatchForm) -> Iterator[Finding]:
    path, operation = patch["path"], patch["operation"]
    try:
        tokens = parse_pointer(path)
    except ValueError as error:
        yield Finding("invalid", field, f"{error}; {_suggest_pointer(path)}")
        return
    in_token = _find_selector_problem if form.is_extended else _find_index_problem
    problems = (_find_root_problem(path, tokens), _find_key_problem(tokens), *map(in_token, tokens))
    yield from (Finding("invalid", field, problem) for problem in problems if problem is not None)
    if tokens and tokens[-1] == "-" and operation in ("remove", "replace"):
        message = f"{path} is the place after the last element, where there is nothing to {operation}"
        yield Finding("invalid", field, f"{message}; to append, use operation add")
    if form.is_extended and (protected := protected_pointer(tokens, patch.get("value"))) is not None:
        yield Finding("forbidden", field, f"{path} would change {protected}, which overrides may not do")


def _suggest_pointer(path: str) -> str:
    if path.startswith("/") or not path.strip():
        return _EXAMPLE
    # JSONPath, jq and kubectl explain write `$.spec`, `.spec` and `spec.containers[0]`.
    plain = path.removeprefix("$").lstrip(".")
    steps = plain.split("/") if "/" in plain else _DOT.split(plain)
    return f"write /{'/'.join(_separate_brackets(step) for step in steps)}"


def _separate_brackets(token: str) -> str:
    """Return ``containers[0]`` as ``containers/0`` and ``containers[name=app]`` as ``containers/[name=app]``."""
    name, bracket, _ = token.partition("[")
    if not bracket or not name:
        return token
    inner = [each.strip("'\"") for each in _BRACKETS.findall(token)]
    return "/".join([name, *(each if each.isdecimal() else f"[{_as_selector(each)}]" for each in inner)])


def _as_selector(inner: str) -> str:
    """Return the selector of an element: JSONPath writes ``[?(@.name=="app")]``."""
    jsonpath = _JSONPATH.fullmatch(inner)
    return f"{jsonpath[1]}={jsonpath[2]}" if jsonpath else inner if "=" in inner else f"name={inner}"


def _find_root_problem(path: str, tokens: Sequence[str]) -> str | None:
    """Return the mistake of a path that begins below the workload or ends with a slash, None if there is none."""
    if len(tokens) > 1 and not tokens[-1]:
        return f"{path} ends with '/', and no member has an empty name: remove the '/'"
    if not tokens or tokens[0] in _ROOT or not tokens[0]:
        return None
    home = next((home for home, name in _HOMES if tokens[0] in load_structs()[name]), None)
    hint = f": write {home}{path}" if home else f": {_EXAMPLE}"
    return f"a workload has no member {tokens[0]!r}{hint}"


def _find_key_problem(tokens: Sequence[str]) -> str | None:
    """Return the mistake of a path with ``*``, or with a plain slash in the key of a label, annotation or selector."""
    if "*" in tokens:
        return "'*' selects no list element: write a patch for each element, as in [name=app]"
    for position, token in enumerate(tokens[:-2]):
        of_metadata = token in ("annotations", "labels") and position and tokens[position - 1] == "metadata"
        if of_metadata or tuple(tokens[: position + 1]) == (*_POD_SPEC, "nodeSelector"):
            key = "~1".join(tokens[position + 1 :])
            return f"the values of {token} are texts: write ~1 for a '/' in a key, as in {token}/{key}"
    return None


def _find_selector_problem(token: str) -> str | None:
    """Return the mistake in a token that selects a list element, such as ``[name=app]``; None if there is none."""
    if not token.startswith("["):
        return f"{token!r} is no member: write {_separate_brackets(token)}" if _INDEXED.fullmatch(token) else None
    key, equals, value = token.removeprefix("[").partition("=")
    if not token.endswith("]"):
        return f"{token!r} does not end with ]: write [name=app], and '/' in a value as ~1"
    if key[:-1].isdecimal():
        return f"{token!r} selects no list element: write {key[:-1]}, or a name, as in [name=app]"
    if not equals or not key or value == "]":
        return f"{token!r} selects no list element: write [name=app]"
    if token.startswith("[?") or value.startswith(("=", "'", '"')):
        inner = f"{key}={value[:-1].strip('=')}".replace("'", "").replace('"', "")
        meant = _as_selector(token[1:-1] if token.startswith("[?") else inner)
        return f"{token!r} selects no list element: write [{meant}]"
    return None


def _find_index_problem(token: str) -> str | None:
    """Return the mistake in a token that selects a list element where only an index does, None if there is none."""
    if not _INDEXED.fullmatch(token) and not (token.startswith("[") and token.endswith("]")):
        return None
    return f"{token!r} is no member: OpenYurt selects list elements by index, as in /spec/template/spec/containers/0"


def _check_images(field: str, patch: Mapping[str, JSON], pools: Sequence[str], token: PoolToken) -> Iterator[Finding]:
    if patch["operation"] == "remove":
        return
    for inner, image in _find_images(tuple(patch["path"].split("/")[1:]), patch.get("value")):
        yield from check_image(image, f"{field}{inner}", pools=pools, token=token)


def _find_images(tokens: tuple[str, ...], value: JSON) -> Iterator[tuple[str, str]]:
    """Yield the images of containers that a patch sets, with the path inside the value."""
    if tokens[: len(_POD_SPEC)] != _POD_SPEC or tokens[len(_POD_SPEC) :][:1] not in {
        (one,) for one in _CONTAINER_LISTS
    }:
        return
    below = tokens[len(_POD_SPEC) + 1 :]
    if len(below) == 2 and below[1] == "image":
        containers: list[tuple[str, JSON]] = [("", {"image": value})]
    elif len(below) == 1:
        containers = [(".image", value)]
    elif not below and isinstance(value, list):
        containers = [(f"[{number}].image", element) for number, element in enumerate(value)]
    else:
        containers = []
    for inner, container in containers:
        image = container.get("image") if isinstance(container, dict) else None
        if isinstance(image, str) and image:
            yield inner, image
