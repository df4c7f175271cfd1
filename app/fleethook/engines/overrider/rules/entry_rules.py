"""Rules for the items and JSON patches of an entry, and of the tweaks of a YurtAppSet v1beta1."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from fleethook.engines.overrider.entries.patch_paths import protected_pointer
from fleethook.engines.overrider.entries.steps_and_limits import ITEMS, LEAVABLE_FIELD
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.model.json import JSON
from fleethook.model.openyurt import NODEPOOL_TOKEN, TWEAK_POOL_TOKEN
from fleethook.patch import parse_pointer
from fleethook.workload_schema.go_structs import load_structs

# github.com/distribution/reference v0.6: regexp.go and normalize.go. kubelet reports InvalidImageName for others.
_DOMAIN_PART: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN: Final = re.compile(rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_PATH_PART: Final = r"[a-z0-9]+(?:(?:[_.]|__|-+)[a-z0-9]+)*"
_PATH: Final = re.compile(rf"{_PATH_PART}(?:/{_PATH_PART})*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}")
_IDENTIFIER: Final = re.compile(r"(?:sha256:)?[a-f0-9]{64}")
_MAX_PORT: Final = 65_535
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_MAX_NAME: Final = 255
_LOCALHOST: Final = "localhost"
_DEFAULT_DOMAIN: Final = "docker.io"


def image_problem(reference: str) -> str | None:
    """Return the reason why ``reference`` is invalid, None if it is valid."""
    if (problem := _form_problem(reference)) is not None:
        return problem
    named, at, digest = reference.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        return f"the digest {digest!r} must be sha256: and 64 lowercase hexadecimal digits"
    domain, path = _split_domain(named)
    path, colon, tag = path.partition(":")
    if colon and not tag:
        return "the tag after ':' is empty"
    return _name_problem(domain, path) or (_tag_problem(tag) if tag else None)


def _form_problem(reference: str) -> str | None:
    """Return the problem of a text that users take for a reference, None if there is none."""
    if (scheme := _SCHEME.match(reference)) is not None:
        return f"an image reference has no scheme: remove {scheme.group()}"
    if re.search(r"\s", reference):
        return "an image reference has no spaces"
    if "$" in reference:
        return "an image reference has no '$': nothing replaces variables in it"
    return "64 hexadecimal digits are an image ID, not a name" if _IDENTIFIER.fullmatch(reference) else None


def _split_domain(named: str) -> tuple[str, str]:
    """Return the registry (``""`` for the default one) and the rest."""
    first, slash, rest = named.partition("/")
    if slash and (any(mark in first for mark in ".:") or first == _LOCALHOST or first != first.lower()):
        return first, rest
    return "", named


def _name_problem(domain: str, path: str) -> str | None:
    if (problem := _domain_problem(domain)) is not None:
        return problem
    if not path:
        return "the repository name is missing"
    if path != path.lower():
        return f"the repository name {path!r} must be lowercase"
    if not _PATH.fullmatch(path):
        return (
            f"the repository name {path!r} must be lowercase letters and digits, with single '.', '_', '/' or with "
            "'-' between them"
        )
    if len(f"{domain or _DEFAULT_DOMAIN}/{path}") > _MAX_NAME:
        return f"the repository name must not have more than {_MAX_NAME} characters"
    return None


def _domain_problem(domain: str) -> str | None:
    # A first part such as my_registry.local is no host name, but the grammar accepts it as a part of the path.
    if domain and not _DOMAIN.fullmatch(domain) and not _PATH.fullmatch(domain):
        return f"the registry {domain!r} must be a host name or address, with :PORT if needed"
    _, colon, port = domain.rpartition("]")[2].rpartition(":")
    digits = port.lstrip("0") if colon else "1"
    # The grammar accepts any number, and no registry can be reached at it.
    if not digits or len(digits) > len(str(_MAX_PORT)) or int(digits) > _MAX_PORT:
        return f"the port of the registry {domain!r} must be from 1 to {_MAX_PORT}"
    return None


def _tag_problem(tag: str) -> str | None:
    if _TAG.fullmatch(tag):
        return None
    return f"the tag {tag!r} must have 1 to 128 letters, digits, '_', '.' or '-', and must not start with '.' or '-'"


# A name in braces, as in templates of other tools: {{ nodepool }}, {{.NodePool}}, {{nodepool-name}} (the token of
# YurtAppSet v1beta1), {nodepool}. The repetitions have limits, so that the search takes linear time.
_BRACED: Final = re.compile(r"(?<!\$)\{{1,2}[ \t]{0,8}[.$]?([A-Za-z][A-Za-z _.-]{0,30}?)[ \t]{0,8}\}{1,2}")
_NAMES: Final = frozenset({"nodepool", "nodepools", "nodepoolname", "pool", "poolname"})
# The same mistake in a thousand values needs no thousand findings.
_MAX_FINDINGS: Final = 20


class PoolToken(NamedTuple):
    """The text that the name of the node pool replaces."""

    text: str
    """``""`` in a place where nothing is replaced."""
    advice: str
    """The end of a message about another text that looks like it."""


OF_OVERRIDERS: Final = PoolToken(NODEPOOL_TOKEN, f"write {NODEPOOL_TOKEN} for the name of the node pool")
OUTSIDE_OVERRIDERS: Final = PoolToken("", f"only an overrider may have {NODEPOOL_TOKEN}")
OF_TWEAKS: Final = PoolToken(TWEAK_POOL_TOKEN, f"write {TWEAK_POOL_TOKEN} for the name of the node pool")
OUTSIDE_TWEAKS: Final = PoolToken("", f"only the values of patches in tweaks may have {TWEAK_POOL_TOKEN}")


def misspelled_token(text: str, token: PoolToken = OF_OVERRIDERS) -> str | None:
    """Return the first text in ``text`` that looks like a token and is none, or None."""
    if "{" not in text:
        return None
    for braced in _BRACED.finditer(text.replace(token.text, "") if token.text else text):
        name = re.sub(r"[ _.-]", "", braced.group(1)).casefold()
        # Where nothing is replaced, {pool} may be a placeholder of the program that reads the text.
        if name in _NAMES and (token.text or (braced.group().startswith("{{") and "nodepool" in name)):
            return braced.group()
    return None


def misspelled_tokens(value: JSON, field: str, token: PoolToken = OF_OVERRIDERS) -> Iterator[Finding]:
    """Yield a warning for the texts and keys in ``value`` that contain a misspelled token.

    Args:
        value: A patch's path or value, or an item.
        field: Its path.
        token: The token that is replaced there.
    """
    for path, misspelled in islice(_find_misspelled(value, field, token), _MAX_FINDINGS):
        yield Finding("token", path, _describe_token(misspelled, token))


def _describe_token(misspelled: str, token: PoolToken) -> str:
    return f"{misspelled} is not replaced and stays as it is: {token.advice}"


def _find_misspelled(value: JSON, field: str, token: PoolToken) -> Iterator[tuple[str, str]]:
    pending = [(field, value)]  # Not recursive, because the decoder allows deeply nested values.
    while pending:
        path, one = pending.pop()
        if isinstance(one, str):
            if (found := misspelled_token(one, token)) is not None:
                yield path, found
        elif isinstance(one, dict):
            for key, inner in reversed(one.items()):
                pending += [(f"{path}.{key}", inner), (f"{path}.{key}", key)]
        elif isinstance(one, list):
            pending += [(f"{path}[{number}]", inner) for number, inner in reversed(list(enumerate(one)))]


# Images are checked with the node pools that the entry lists. This name represents the node pools of "*".
_SAMPLE_POOL: Final = "pool"


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


def check_image(image: str, field: str, *, pools: Sequence[str], token: PoolToken = OF_OVERRIDERS) -> Iterator[Finding]:
    """Yield a finding if no registry accepts an image reference.

    Args:
        image: The reference, which may contain the token.
        field: Its path.
        pools: The names that replace the token. If empty, a sample name replaces it.
        token: The token that is replaced there.
    """
    if (misspelled := misspelled_token(image, token)) is not None:
        yield Finding("image", field, _describe_token(misspelled, token))
        return
    if not token.text or token.text not in image:
        if (problem := image_problem(image)) is not None:
            yield Finding("image", field, f"{image!r} is not an image: {problem}")
        return
    for pool in pools or (_SAMPLE_POOL,):
        if (problem := image_problem(image.replace(token.text, pool))) is not None:
            yield Finding("image", field, f"{image!r} is not an image for node pool {pool}: {problem}")
            return


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
