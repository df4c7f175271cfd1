"""Validate image references with the grammar of kubelet and container runtimes (distribution/reference)."""

import re
from typing import Final

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
