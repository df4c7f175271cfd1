"""Rules for the images of containers, and for the placeholder of the node pool's name in them and in other texts."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from fleethook.engines.overrider.entries.patch_paths_and_protected_fields import POD_SPEC
from fleethook.engines.overrider.entries.steps_and_limits import NODEPOOL_TOKEN, TWEAK_POOL_TOKEN
from fleethook.engines.overrider.render.list_elements_and_order import CONTAINER_LISTS
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.model.json import JSON, as_object, enumerate_objects

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


def check_patched_images(
    field: str, patch: Mapping[str, JSON], pools: Sequence[str], token: PoolToken
) -> Iterator[Finding]:
    """Yield the images of containers that a patch sets and that no registry accepts; arguments as of `check_image`."""
    if patch["operation"] == "remove":
        return
    for inner, image in _find_images(tuple(patch["path"].split("/")[1:]), patch.get("value")):
        yield from check_image(image, f"{field}{inner}", pools=pools, token=token)


def _find_images(tokens: tuple[str, ...], value: JSON) -> Iterator[tuple[str, str]]:
    """Yield the images of containers that a patch sets, with the path inside the value."""
    if tokens[: len(POD_SPEC)] != POD_SPEC or tokens[len(POD_SPEC) :][:1] not in {(one,) for one in CONTAINER_LISTS}:
        return
    below = tokens[len(POD_SPEC) + 1 :]
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


def list_images(workload: Mapping[str, JSON]) -> Iterator[tuple[str, str]]:
    """Yield the images of the containers of a workload or a template, each with its path."""
    pod = as_object(as_object(as_object(workload.get("spec")).get("template")).get("spec"))
    for member in CONTAINER_LISTS:
        for number, container in enumerate_objects(pod.get(member)):
            if (image := container.get("image")) and isinstance(image, str):
                yield f".spec.template.spec.{member}[{number}].image", image
