"""Paths of patches: JSON pointers (RFC 6901) in which ``[name=app]`` selects an element of a list, as in kustomize.

``/spec/template/spec/containers/[name=app]/env/[name=MODE]/value`` selects by name at any position in the lists. An
index selects another element when the list is edited. Commas separate several members:
``[containerPort=53,protocol=UDP]``. Some fields are protected, because OpenYurt or fleethook depends on them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.render.list_elements_and_order import describe_identity, index_elements
from fleethook.engines.overrider.render.template_delta import value_at
from fleethook.engines.overrider.render.undo_and_annotations import RESERVED_PREFIX
from fleethook.model.formats.text import list_names, suggestion
from fleethook.model.json import ABSENT, JSON, JSONObject, as_object
from fleethook.model.merge_keys import WORKLOAD, MergeSchema
from fleethook.model.openyurt import GROUP, POOL_NAME_LABEL
from fleethook.patch import format_pointer, parse_pointer
from fleethook.workload_schema.go_structs import load_structs

# Pointers of fields that no override may write. Patches of a parent of such a field are refused, too.
_PROTECTED: Final[tuple[tuple[str, ...], ...]] = (
    ("apiVersion",),
    ("kind",),
    ("status",),
    ("spec", "selector"),
    ("metadata", "name"),
    ("metadata", "generateName"),
    ("metadata", "namespace"),
    ("metadata", "uid"),
    ("metadata", "resourceVersion"),
    ("metadata", "generation"),
    ("metadata", "creationTimestamp"),
    ("metadata", "deletionTimestamp"),
    ("metadata", "finalizers"),
    ("metadata", "managedFields"),
    ("metadata", "ownerReferences"),
    ("metadata", "labels", POOL_NAME_LABEL),
    ("spec", "template", "metadata", "labels", POOL_NAME_LABEL),
)
# These contain protected and other fields. A patch of them is allowed; `protected_change` compares the result.
_CHECKED_LATER: Final = frozenset(
    {("metadata", "labels"), ("spec", "template")}
    | {("spec", "template", "metadata")}
    | {("spec", "template", "metadata", "labels")}
)
_POD_LABELS: Final = ("spec", "template", "metadata", "labels")
METADATA_MAPS: Final[tuple[tuple[str, ...], ...]] = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    _POD_LABELS,
    ("spec", "template", "metadata", "annotations"),
)
"""Maps with keys of fleethook (the undo of the last render is an annotation) and of OpenYurt's controllers."""
_IDENTITY: Final = ("name", "generateName", "namespace", "uid", "ownerReferences", "finalizers", "deletionTimestamp")


def key_owner(key: str) -> str:
    """Return the only writer of a label or annotation, ``""`` if overrides may write it."""
    if key.startswith(RESERVED_PREFIX):
        return "fleethook"
    return "OpenYurt" if key.startswith(f"{GROUP}/") else ""


def protected_pointer(tokens: tuple[str, ...], value: JSON) -> str | None:
    """Return the pointer of the protected field that a patch at ``tokens`` would write, or None.

    Args:
        tokens: The patch's path.
        value: The patch's value; its keys count if the patch sets a map of labels or annotations.
    """
    for key in _find_owned_keys(tokens, value):
        return format_pointer(key)
    if tokens in _CHECKED_LATER:
        return None
    for protected in _PROTECTED:
        shared = min(len(tokens), len(protected))
        if tokens[:shared] == protected[:shared]:
            return format_pointer(protected)
    return None


def _find_owned_keys(tokens: tuple[str, ...], value: JSON) -> Iterator[tuple[str, ...]]:
    for place in METADATA_MAPS:
        if len(tokens) > len(place) and tokens[: len(place)] == place and key_owner(tokens[len(place)]):
            yield (*place, tokens[len(place)])
        elif len(tokens) <= len(place) and place[: len(tokens)] == tokens:
            inner = value
            for member in place[len(tokens) :]:
                inner = inner.get(member) if isinstance(inner, dict) else None
            # A patch of the map may repeat OpenYurt's keys with their values, so `protected_change` checks those.
            keys = inner if isinstance(inner, dict) else ()
            yield from ((*place, key) for key in keys if key.startswith(RESERVED_PREFIX))


def protected_change(before: JSONObject, after: JSONObject) -> str | None:
    """Return the pointer of the first protected member that differs, or None.

    Protected members identify the workload and its owner, select its pods, or are labels and annotations of OpenYurt's
    controllers. The author of an overrider must not be able to take a workload away from its owner.
    """
    for name in _IDENTITY:
        if before["metadata"].get(name, ABSENT) != after["metadata"].get(name, ABSENT):
            return f"/metadata/{name}"
    for name in ("apiVersion", "kind", "status"):
        if before.get(name, ABSENT) != after.get(name, ABSENT):
            return f"/{name}"
    if before["spec"].get("selector") != after["spec"].get("selector"):
        return "/spec/selector"
    selected = as_object(as_object(before["spec"].get("selector")).get("matchLabels"))
    for place in METADATA_MAPS:
        known, now = (as_object(value_at(document, place)) for document in (before, after))
        for key in (*known.keys(), *(now.keys() - known.keys())):
            owned = key.startswith(f"{GROUP}/") or (place == _POD_LABELS and key in selected)
            if owned and known.get(key) != now.get(key):
                return format_pointer((*place, key))
    return None


def find_reserved_keys(rendered: JSONObject) -> Iterator[str]:
    """Yield the pointers of fleethook's labels and annotations in a workload."""
    for place in METADATA_MAPS:
        for key in as_object(value_at(rendered, place)):
            if key.startswith(RESERVED_PREFIX):
                yield format_pointer((*place, key))


END: Final = "-"
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
POD_SPEC: Final = ("spec", "template", "spec")


def find_path_problems(path: str, tokens: Sequence[str], operation: str, *, is_extended: bool) -> Iterator[str]:
    """Yield the mistakes of a patch's path that can be found without a workload.

    Args:
        path: The path.
        tokens: Its tokens.
        operation: The operation of the patch.
        is_extended: Whether tokens may select list elements by name.
    """
    in_token = _find_selector_problem if is_extended else _find_index_problem
    problems = (_find_root_problem(path, tokens), _find_key_problem(tokens), *map(in_token, tokens))
    yield from (problem for problem in problems if problem is not None)
    if tokens and tokens[-1] == END and operation in ("remove", "replace"):
        message = f"{path} is the place after the last element, where there is nothing to {operation}"
        yield f"{message}; to append, use operation add"


def suggest_pointer(path: str) -> str:
    """Return the advice about a path that is no JSON pointer."""
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
        if of_metadata or tuple(tokens[: position + 1]) == (*POD_SPEC, "nodeSelector"):
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


_NO_SCHEMA: Final = MergeSchema()
_MAX_SUGGESTED: Final = 5


class PathError(ValueError):
    """A path that does not exist in the workload; the text names the missing part and a correct path."""


class PathTarget(NamedTuple):
    """The container and the member that a path selects."""

    parent: tuple[str, ...]
    """The path of the container, with indexes in place of names."""
    last: str
    """The member or the index in the container."""
    filled: Mapping[str, str]
    """The members that a last token ``[name=app]`` sets in a new element; empty for other tokens."""


def parse_selector(token: str) -> dict[str, str] | None:
    """Return the members that ``[name=app]`` requires, None if the token does not have that form."""
    if not (token.startswith("[") and token.endswith("]") and "=" in token):
        return None
    members: dict[str, str] = {}
    last = ""
    for part in token[1:-1].split(","):
        member, separator, value = part.partition("=")
        if separator and member:
            last = member
            members[member] = value
        elif last:
            members[last] += f",{part}"  # The comma belongs to the value before it.
        else:
            return None
    return members or None


def find_target(document: JSON, path: str, *, add: bool) -> PathTarget:
    """Return the container and the member that ``path`` selects in ``document``.

    Args:
        document: The workload.
        path: A pointer, with or without names of elements.
        add: Whether the patch adds the member, so that the last token may name a missing one.

    Raises:
        ValueError: ``path`` is no JSON pointer.
        PathError: A token selects nothing; with ``add``, only a token before the last.
    """
    tokens = parse_pointer(path)
    if not tokens:
        raise PathError("the path is empty, and a patch cannot replace the workload itself; name a member of it")
    walked: list[str] = []
    node, schema = document, WORKLOAD
    for token in tokens[:-1]:
        step = _locate(node, token, schema, walked)
        if type(node) is dict:
            schema = schema.fields.get(step, _NO_SCHEMA)
        node = node[int(step) if type(node) is list else step]
        walked.append(step)
    last = tokens[-1]
    selector = parse_selector(last) if type(node) is list else None
    if selector is None:
        if not add:
            _locate(node, last, schema, walked)
        return PathTarget(tuple(walked), last, {})
    positions = matching_elements(node, selector, schema)
    if len(positions) == 1 or not add:
        return PathTarget(tuple(walked), _locate(node, last, schema, walked), selector)
    if positions:
        raise PathError(f"{last} names {len(positions)} elements; add a member that tells them apart")
    return PathTarget(tuple(walked), END, selector)


def matching_elements(elements: Sequence[JSON], identity: Mapping[str, str], schema: MergeSchema) -> list[int]:
    """Return the positions of the elements that have these members; an absent member counts as its default."""
    defaults = dict(schema.identity)
    return [
        position
        for position, element in enumerate(elements)
        if isinstance(element, dict)
        and all(_as_text(element.get(name, defaults.get(name))) == value for name, value in identity.items())
    ]


def _as_text(value: JSON) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int, float)) else None


def _locate(node: JSON, token: str, schema: MergeSchema, walked: Sequence[str]) -> str:
    """Return the member or index that a token selects in ``node``; raises PathError if there is none."""
    if isinstance(node, dict):
        if token not in node:
            raise PathError(f"member {token!r} does not exist{suggestion(token, [*node])}")
        return token
    if not isinstance(node, list):
        raise PathError(f"{token!r} selects a member of a value that is neither object nor array")
    selector = parse_selector(token)
    if selector is None:
        return _check_index(node, token, schema)
    positions = matching_elements(node, selector, schema)
    if len(positions) == 1:
        return str(positions[0])
    if positions:
        raise PathError(f"{token} names {len(positions)} elements; add a member that tells them apart")
    where = "/".join(("", *walked))
    raise PathError(f"the template has no element {token} in {where}{describe_elements(node, schema)}")


def _check_index(elements: Sequence[JSON], token: str, schema: MergeSchema) -> str:
    if not token.isascii() or not token.isdecimal() or (len(token) > 1 and token[0] == "0") or len(token) > 9:
        raise PathError(f"{token!r} is not an array index{describe_elements(elements, schema)}")
    if int(token) >= len(elements):
        raise PathError(
            f"index {token} is out of range: the array has {len(elements)} elements"
            f"{describe_elements(elements, schema)}"
        )
    return token


def describe_elements(elements: Sequence[JSON], schema: MergeSchema) -> str:
    """Return the names of a list's elements as the end of an error message, ``""`` if they have no names."""
    known = index_elements(list(elements), schema)
    if not known:
        return ""
    names = [describe_identity(identity, schema) for identity in known]
    return f"; an override changes only elements of the template: {list_names(names, most=_MAX_SUGGESTED)}"


def missing_parent(document: JSON, path: str) -> JSONObject | None:
    """Return the operation that adds the last parent of ``path`` if only that one is missing, None otherwise.

    Users write ``add …/env/-`` and ``add …/annotations/key`` even if the template has no variables or annotations. The
    parent of ``-`` and of ``[name=…]`` is a list, the parent of any other token an object.
    """
    tokens = parse_pointer(path)
    if len(tokens) < 2:
        return None
    head, _, last = path.rpartition("/")
    try:
        target = find_target(document, head, add=True)
    except PathError:
        return None
    node = document
    for token in target.parent:
        node = node[int(token) if isinstance(node, list) else token]
    if not isinstance(node, dict) or node.get(target.last) is not None or last.isdecimal():
        return None
    parent: JSON = [] if last == END or parse_selector(tokens[-1]) is not None else {}
    return {"op": "add", "path": pointer_of(target), "value": parent}


def pointer_of(target: PathTarget) -> str:
    """Return the plain JSON pointer of a target."""
    return format_pointer((*target.parent, target.last))


def complete_element(value: JSON, texts: Mapping[str, str]) -> JSON:
    """Return the value of an element with the members that its path names."""
    if not isinstance(value, dict):
        raise PathError("the value of an element that the path names must be an object")
    for name, text in texts.items():
        if name in value and str(value[name]) != text:
            raise PathError(f"the path names an element with {name}={text}, but the value has {name}: {value[name]!r}")
    missing = {name: text for name, text in texts.items() if name not in value}
    if any(text.isdecimal() for text in missing.values()):
        raise PathError(
            f"the value must have {', '.join(missing)}, because a path does not distinguish numbers from texts"
        )
    return {**missing, **value}
