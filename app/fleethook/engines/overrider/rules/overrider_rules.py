"""Rules for a YurtAppOverrider alone, without its subject: its members, entries and patches.

The CustomResourceDefinition enforces some of them. This module repeats those, because the command line checks manifests
without an apiserver, and because these messages tell the author how to correct a mistake.
"""

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
from fleethook.engines.overrider.entries.patch_paths import LIMITS, MAX_VALUES, protected_pointer
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.item_rules import check_image, check_item, misspelled_tokens
from fleethook.engines.overrider.rules.value_shapes import (
    ENTRY,
    METADATA,
    OVERRIDER,
    PATCH,
    SELECTOR,
    SUBJECT,
    find_meant_fields,
    find_unknown_fields,
    mistyped,
    quote_advice,
    type_name,
)
from fleethook.model.formats.labels import validate_selector
from fleethook.model.formats.text import suggestion
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, count_values
from fleethook.model.openyurt import GROUP, SUBJECT_KINDS, SUBJECT_VERSIONS, VERSION, VERSION_V1BETA1
from fleethook.patch import parse_pointer
from fleethook.workload_schema.go_structs import load_structs

OPERATIONS: Final = ("add", "remove", "replace")
# Operations of other tools, with their equivalent here.
_OTHER_OPERATIONS: Final = {
    "append": "add",
    "delete": "remove",
    "insert": "add",
    "merge": "add",
    "set": "add",
    "unset": "remove",
    "update": "replace",
}
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


def check_patch(patch: JSON, field: str, *, pools: Sequence[str]) -> Iterator[Finding]:
    """Yield the mistakes in a patch.

    Args:
        patch: The patch, of any type.
        field: Its path.
        pools: The node pools that the entry names, for images that contain ``{{nodepool}}``.
    """
    if not isinstance(patch, dict):
        yield mistyped(field, "an object", patch)
        return
    yield from find_unknown_fields(patch, PATCH, field=field, owner="a patch")
    yield from _check_operation(f"{field}.operation", patch)
    yield from _check_value(f"{field}.value", patch)
    yield from _check_path(f"{field}.path", patch)
    yield from _check_images(f"{field}.value", patch, pools)
    for member in ("path", "value"):
        yield from misspelled_tokens(patch.get(member), f"{field}.{member}")


def _check_operation(field: str, patch: Mapping[str, JSON]) -> Iterator[Finding]:
    operation = patch.get("operation")
    known = ", ".join(OPERATIONS)
    if operation in OPERATIONS or (operation is None and "op" in patch):
        return  # `op` has a finding of its own: `find_unknown_fields` suggests `operation`.
    if operation is None:
        yield Finding("required", field, f"is required: one of {known}")
    elif not isinstance(operation, str):
        yield mistyped(field, f"one of {known}", operation)
    else:
        meant = _OTHER_OPERATIONS.get(operation.casefold())
        hint = f"; did you mean {meant}?" if meant else suggestion(operation, OPERATIONS)
        yield Finding("unsupported", field, f"must be one of {known}, not {operation!r}{hint}")


def _check_value(field: str, patch: Mapping[str, JSON]) -> Iterator[Finding]:
    operation = patch.get("operation", patch.get("op"))
    # Clients built on Go types send an absent value as null, so null counts as absent in a remove.
    if operation == "remove" and patch.get("value") is not None:
        yield Finding("forbidden", field, "must be empty when operation is remove")
    elif operation in ("add", "replace") and "value" not in patch:
        yield Finding("required", field, f"is required when operation is {operation}; null unsets")


def _check_path(field: str, patch: Mapping[str, JSON]) -> Iterator[Finding]:
    path, operation = patch.get("path"), patch.get("operation")
    if not isinstance(path, str):
        yield Finding("required", field, "is required: a JSON pointer such as /spec/replicas")
        return
    try:
        tokens = parse_pointer(path)
    except ValueError as error:
        yield Finding("invalid", field, f"{error}; {_suggest_pointer(path)}")
        return
    problems = (_find_root_problem(path, tokens), _find_key_problem(tokens), *map(_find_selector_problem, tokens))
    yield from (Finding("invalid", field, problem) for problem in problems if problem is not None)
    if tokens and tokens[-1] == "-" and operation in ("remove", "replace"):
        message = f"{path} is the place after the last element, where there is nothing to {operation}"
        yield Finding("invalid", field, f"{message}; to append, use operation add")
    if (protected := protected_pointer(tokens, patch.get("value"))) is not None:
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


def _check_images(field: str, patch: Mapping[str, JSON], pools: Sequence[str]) -> Iterator[Finding]:
    path = patch.get("path")
    if patch.get("operation") == "remove" or not isinstance(path, str):
        return
    for inner, image in _find_images(tuple(path.split("/")[1:]), patch.get("value")):
        yield from check_image(image, f"{field}{inner}", pools=pools)


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


# Checking the name of a node pool takes some 0.5 µs, an item or a patch 30 µs.
_NAMES_PER_UNIT: Final = 60


class Part(NamedTuple):
    """A part of an overrider that is checked without a pause."""

    units: int
    """The work of the check, in items and patches."""
    findings: Iterator[Finding]


def check_overrider(overrider: JSONObject) -> Iterator[Finding]:
    """Yield the mistakes in an overrider that need no subject to be found, with field paths."""
    for part in check_parts(overrider):
        yield from part.findings


def check_parts(overrider: JSONObject) -> Iterator[Part]:
    """Yield the parts of `check_overrider`, in the order of the document, for callers that pause between them."""
    yield Part(1, _check_members(overrider))
    entries = overrider.get("entries")
    if isinstance(entries, list):
        for number, entry in enumerate(entries):
            yield from _split_entry(f"entries[{number}]", entry)


def _check_members(overrider: JSONObject) -> Iterator[Finding]:
    yield from find_unknown_fields(overrider, OVERRIDER, field="", owner="a YurtAppOverrider")
    yield from find_unknown_fields(overrider["metadata"], METADATA, field="metadata", owner="metadata")
    yield from _check_subject(overrider.get("subject"))
    entries = overrider.get("entries")
    if entries is None:
        if "entries" not in find_meant_fields(overrider, OVERRIDER):
            yield Finding("required", "entries", "is required; write [] to override nothing")
    elif not isinstance(entries, list):
        yield mistyped("entries", "a list", entries)


def _check_subject(subject: JSON) -> Iterator[Finding]:
    if not isinstance(subject, dict):
        yield Finding("required", "subject", "is required: the YurtAppSet or YurtAppDaemon to override")
        return
    kinds = sorted(group_kind.kind for group_kind in SUBJECT_KINDS)
    kind = subject.get("kind")
    if kind not in kinds:
        hint = suggestion(kind, kinds) if isinstance(kind, str) else ""
        yield Finding("unsupported", "subject.kind", f"must be one of {', '.join(kinds)}, not {kind!r}{hint}")
    version = subject.get("apiVersion")
    known = [f"{GROUP}/{one}" for one in SUBJECT_VERSIONS.get(GroupKind(GROUP, str(kind)), (VERSION, VERSION_V1BETA1))]
    if version and version not in known:
        owner = kind if kind in kinds else "a subject"
        message = f"must be {' or '.join(known)}, not {version!r}; {owner} has no other version to override"
        yield Finding("unsupported", "subject.apiVersion", message)
    name = subject.get("name")
    if not isinstance(name, str) or not name:
        yield Finding("required", "subject.name", "is required")
    yield from _check_subject_members(subject)


def _check_subject_members(subject: Mapping[str, JSON]) -> Iterator[Finding]:
    for finding in find_unknown_fields(subject, SUBJECT, field="subject", owner="a subject"):
        if finding.field.casefold() == "subject.namespace":
            message = "is not a field: a subject is always in the namespace of its overrider; remove it"
            yield finding._replace(message=message)
        else:
            yield finding


def _split_entry(field: str, entry: JSON) -> Iterator[Part]:
    if not isinstance(entry, dict):
        yield Part(1, iter([mistyped(field, "an object", entry)]))
        return
    pools = entry.get("pools")
    selector, meant = entry.get("poolSelector"), find_meant_fields(entry, ENTRY)
    by_labels = selector is not None or "poolSelector" in meant
    found = [] if "pools" in meant or (by_labels and pools is None) else [*_check_pools(f"{field}.pools", pools)]
    if by_labels:
        found = [one for one in found if one.code != "unused-entry"]
    found += [] if selector is None else _check_selector(f"{field}.poolSelector", selector, pools)
    found += find_unknown_fields(entry, ENTRY, field=field, owner="an entry")
    yield Part(1 + len(pools if isinstance(pools, list) else ()) // _NAMES_PER_UNIT, iter(found))
    samples = sample_names(selected_names(pools))
    for member, check in (("items", check_item), ("patches", check_patch)):
        elements = entry.get(member)
        if elements is not None and not isinstance(elements, list):
            yield Part(1, iter([mistyped(f"{field}.{member}", "a list", elements)]))
            continue
        if elements and len(elements) > LIMITS.operations:
            text = f"has {len(elements)} {member}, and the limit is {LIMITS.operations}: combine them"
            yield Part(1, iter([Finding("invalid", f"{field}.{member}", text)]))
            continue
        for number, element in enumerate(elements or ()):
            place = f"{field}.{member}[{number}]"
            if count_values(element, limit=MAX_VALUES) > MAX_VALUES:
                text = f"has more than {MAX_VALUES} values, which is the limit for one of the {member}: split it"
                yield Part(1, iter([Finding("invalid", place, text)]))
            else:
                yield Part(1, check(element, place, pools=samples))
    if not found and not entry.get("items") and not entry.get("patches"):
        yield Part(1, iter([Finding("no-effect", field, "changes nothing: it has neither items nor patches")]))


def _check_pools(field: str, pools: JSON) -> Iterator[Finding]:
    if isinstance(pools, str):
        meant = ", ".join(f"- {name}" for name in pools.split())
        message = f"must be a list, not the text {pools!r}; each pool takes a dash: {meant}"
        yield Finding("invalid", field, message)
    elif pools is None:
        yield Finding(
            "required", field, "names no node pool; write '*' for all of them, or poolSelector for some labels"
        )
    elif not isinstance(pools, list):
        yield mistyped(field, "a list of node pools", pools)
    else:
        broken = [finding for number, pool in enumerate(pools) for finding in _check_pool(f"{field}[{number}]", pool)]
        yield from broken
        if not broken and (problem := _selects_nothing(pools)) is not None:
            yield Finding("unused-entry", field, problem)


def _check_selector(field: str, selector: JSON, pools: JSON) -> Iterator[Finding]:
    """Yield the mistakes of a ``poolSelector``."""
    if not isinstance(selector, dict):
        yield mistyped(field, "an object with matchLabels or matchExpressions", selector)
        return
    if count_values(selector, limit=MAX_VALUES) > MAX_VALUES:
        yield Finding("invalid", field, f"has more than {MAX_VALUES} values, which is the limit: split the entry")
        return
    unknown = [*find_unknown_fields(selector, SELECTOR, field=field, owner="a selector")]
    yield from unknown
    for pointer, problem in validate_selector(selector, ""):
        path = "".join(f"[{token}]" if token.isdecimal() else f".{token}" for token in pointer.split("/")[1:])
        yield Finding("invalid", f"{field}{path}", problem)
    if not unknown and not any(selector.get(name) for name in SELECTOR):
        text = "is empty, and an empty selector would select every node pool: write pools: ['*'] for that"
        yield Finding("required", field, text)
    elif isinstance(pools, list) and EVERY_POOL in pools:
        yield Finding("no-effect", field, "changes nothing, because pools has '*': remove one of them")


def _check_pool(field: str, pool: JSON) -> Iterator[Finding]:
    if isinstance(pool, str) and pool not in ("", EXCLUDE):
        return
    message = "must be a pool's name, -name or '*'"
    if isinstance(pool, dict) and (misplaced := [member for member in ENTRY if member in pool]):
        message += f"; {' and '.join(misplaced)} must be indented like pools, without a dash"
    elif not isinstance(pool, str):
        message += f", not {type_name(pool)}"
        message += quote_advice(pool)
    yield Finding("invalid", field, message)


def _selects_nothing(names: Sequence[JSON]) -> str | None:
    if not names:
        return "is empty, so the entry applies to no node pool"
    if not selected_names(names) and EVERY_POOL not in names:
        return "only excludes node pools, so the entry applies to none; add '*' for all others"
    if EVERY_POOL in names or any(map(PoolSelector({"pools": names}).selects, selected_names(names))):
        return None
    return "excludes every node pool that it names, so the entry applies to none"
