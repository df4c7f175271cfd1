"""Finds the problems of an instance's ``spec.crdTarball``, and warns of its risks.

Messages and order are those of upstream where upstream refuses a field (operator/pkg/controller/karmada/validating.go,
v1.17.1). Upstream parses URLs only, and admits values that fail at the download; fleethook refuses them here.

With upstream's CRD, the API server drops unknown fields. With fleethook's CRD, it keeps them
(``x-kubernetes-preserve-unknown-fields``). Either way a misspelled pin would not be checked, so an unknown field is a
problem. The known fields are those of `fleethook.model.crd_tarball`.
"""

import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from fleethook.engines.crds.instance.karmada_release import is_release, read_instance_release
from fleethook.engines.crds.redaction_and_exit_codes import redact
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response, StatusCause, not_for_review
from fleethook.model.crd_tarball import (
    KARMADA,
    MAX_TARBALL_BYTES,
    MAX_TIMEOUT_SECONDS,
    SHA256_FORM,
    CRDTarball,
    Policy,
    SecretReference,
)
from fleethook.model.formats.client_config_and_addresses import MAX_URL, RequestURI, parse_url
from fleethook.model.formats.field_errors import (
    FieldError,
    choice_problems,
    first_problems,
    invalid,
    is_integer,
    mistyped,
    required,
    too_long,
)
from fleethook.model.formats.text import nearest
from fleethook.model.json import JSON, JSONObject, as_list, as_object
from fleethook.outbound.certificate_trust import bundle_problems

_SCHEMES: Final = ("http", "https")
_PROXY_SCHEMES: Final = ("http", "https", "socks5", "socks5h")
MAX_MIRRORS: Final = 8
MAX_NO_PROXY: Final = 64
_MAX_PORT: Final = 65535
_SHA256: Final = re.compile(SHA256_FORM, re.ASCII)


def find_http_problems(source: JSON, field: str, *, namespace: JSON, strict: bool) -> Iterator[FieldError]:
    """Yield the problems of an HTTP source.

    Args:
        source: The field's value, of any type; None if it is missing.
        field: Path of the field.
        namespace: Namespace of the instance; only its Secrets may be named.
        strict: Refuse credentials in URLs.
    """
    if source is None:
        return
    if not isinstance(source, dict):
        yield mistyped(field, "an object")
        return
    if source.get("url") is not None:
        yield from _find_url_problems(source["url"], f"{field}.url", strict=strict)
    yield from _find_proxy_problems(source.get("proxy"), f"{field}.proxy", namespace=namespace, strict=strict)
    yield from _find_digest_problems(source.get("sha256"), f"{field}.sha256")
    yield from _find_mirror_problems(source.get("mirrors"), f"{field}.mirrors", strict=strict)
    yield from _find_authority_problems(source, field, namespace=namespace)
    yield from find_reference_problems(source.get("secretRef"), f"{field}.secretRef", namespace=namespace)
    yield from _find_number_problems(source.get("timeoutSeconds"), f"{field}.timeoutSeconds", limit=MAX_TIMEOUT_SECONDS)
    yield from _find_number_problems(source.get("maxBytes"), f"{field}.maxBytes", limit=MAX_TARBALL_BYTES)


def find_reference_problems(reference: JSON, field: str, *, namespace: JSON) -> Iterator[FieldError]:
    """Yield the problems of an optional reference to an object in the instance's namespace.

    The controller reads the object with its own permissions. A reference to another namespace would let every user who
    can write an instance read Secrets there.
    """
    if reference is None:
        return
    if not isinstance(reference, dict):
        yield mistyped(field, "an object")
        return
    name = reference.get("name")
    if name is None or name == "":
        yield required(f"{field}.name")
    elif not isinstance(name, str):
        yield mistyped(f"{field}.name", "a string")
    if reference.get("namespace") not in (None, "", namespace):
        yield FieldError(f"{field}.namespace", "Forbidden: must be the namespace of the Karmada, or empty")


def _find_url_problems(
    url: JSON, field: str, *, what: str = "remote", schemes: tuple[str, ...] = _SCHEMES, strict: bool
) -> Iterator[FieldError]:
    if not isinstance(url, str):
        yield mistyped(field, "a string")
        return
    if len(url) > MAX_URL:
        yield too_long(field, MAX_URL)
        return
    shown = redact(url)
    try:
        parts = parse_url(url)
        # Fails for a lone surrogate.
        url.encode()
    except ValueError:
        yield invalid(field, shown, f"invalid CRDs {what} URL")
        return
    if parts.scheme not in schemes:
        known = ", ".join(schemes[:-1])
        yield invalid(field, shown, f"scheme must be {known} or {schemes[-1]}")
        return
    yield from (invalid(field, shown, text) for text in _find_host_problems(parts))
    if "#" in url:
        yield invalid(field, shown, "must not have a fragment")
    if strict and parts.user is not None:
        yield invalid(field, shown, "must not have credentials: name a Secret in secretRef")


def _find_host_problems(parts: RequestURI) -> Iterator[str]:
    if not parts.hostname:
        yield "host is required"
    # The number may have any length: int() refuses thousands of digits.
    port = parts.port.lstrip("0")
    if parts.port and (len(port) > len(str(_MAX_PORT)) or not 1 <= int(port or "0") <= _MAX_PORT):
        yield "port must be between 1 and 65535"


def _find_proxy_problems(proxy: JSON, field: str, *, namespace: JSON, strict: bool) -> Iterator[FieldError]:
    if proxy is None:
        return
    if not isinstance(proxy, dict):
        yield mistyped(field, "an object")
        return
    url = proxy.get("proxyURL")
    # Upstream reads a proxy without a URL as one with an empty URL.
    yield from _find_url_problems(
        "" if url is None else url, f"{field}.proxyURL", what="proxy", schemes=_PROXY_SCHEMES, strict=strict
    )
    yield from find_reference_problems(proxy.get("secretRef"), f"{field}.secretRef", namespace=namespace)
    for index, host in _enumerate_list(names := proxy.get("noProxy"), limit=MAX_NO_PROXY):
        if not isinstance(host, str):
            yield mistyped(f"{field}.noProxy[{index}]", "a string")
        elif not host.strip():
            yield required(f"{field}.noProxy[{index}]")
    yield from _find_length_problems(names, f"{field}.noProxy", limit=MAX_NO_PROXY)


def _find_mirror_problems(mirrors: JSON, field: str, *, strict: bool) -> Iterator[FieldError]:
    for index, mirror in _enumerate_list(mirrors, limit=MAX_MIRRORS):
        yield from _find_url_problems(mirror, f"{field}[{index}]", what="mirror", strict=strict)
    yield from _find_length_problems(mirrors, field, limit=MAX_MIRRORS)


def _enumerate_list(values: JSON, *, limit: int) -> Iterator[tuple[int, JSON]]:
    yield from enumerate(as_list(values)[:limit])


def _find_length_problems(values: JSON, field: str, *, limit: int) -> Iterator[FieldError]:
    if values is not None and not isinstance(values, list):
        yield mistyped(field, "a list")
    elif values and len(values) > limit:
        yield FieldError(field, f"Too many: {len(values)}: must have at most {limit} items")


def _find_digest_problems(digest: JSON, field: str) -> Iterator[FieldError]:
    if digest is None:
        return
    if not isinstance(digest, str):
        yield mistyped(field, "a string")
    elif not _SHA256.fullmatch(digest):
        yield invalid(field, digest, "must be 64 hexadecimal digits")


def _find_authority_problems(source: JSONObject, field: str, *, namespace: JSON) -> Iterator[FieldError]:
    bundle, reference = source.get("caBundle"), source.get("caSecretRef")
    yield from bundle_problems(bundle, f"{field}.caBundle")
    yield from find_reference_problems(reference, f"{field}.caSecretRef", namespace=namespace)
    if bundle not in (None, "") and reference is not None:
        yield FieldError(f"{field}.caSecretRef", "Forbidden: may not be set together with caBundle")


def _find_number_problems(value: JSON, field: str, *, limit: int) -> Iterator[FieldError]:
    if value is None:
        return
    if not is_integer(value):
        yield mistyped(field, "an integer")
    elif not 1 <= value <= limit:
        yield FieldError(field, f"Invalid value: must be between 1 and {limit}")


FIELD: Final = "spec.crdTarball"

_MAX_PATH: Final = 4096


def find_problems(karmada: JSONObject, *, old: JSONObject | None = None, strict: bool = False) -> Iterator[FieldError]:
    """Yield the problems of an instance's ``spec.crdTarball``.

    Args:
        karmada: The instance; fields may have any type.
        old: The instance before an update. An unchanged ``crdTarball`` is admitted, even if it is invalid: otherwise an
            update could not remove a finalizer.
        strict: Refuse credentials in URLs; by default they only get a warning.
    """
    spec = karmada.get("spec")
    if spec is not None and not isinstance(spec, dict):
        yield mistyped("spec", "an object")
        return
    tarball = as_object(spec).get("crdTarball")
    if tarball is None or (old is not None and as_object(old.get("spec")).get("crdTarball") == tarball):
        return
    if not isinstance(tarball, dict):
        yield mistyped(FIELD, "an object")
        return
    namespace = as_object(karmada.get("metadata")).get("namespace")
    yield from find_http_problems(tarball.get("httpSource"), f"{FIELD}.httpSource", namespace=namespace, strict=strict)
    policy = tarball.get("crdDownloadPolicy")
    if policy is not None and not isinstance(policy, str):
        yield mistyped(f"{FIELD}.crdDownloadPolicy", "a string")
    yield from choice_problems(policy, f"{FIELD}.crdDownloadPolicy", tuple(Policy))
    yield from _find_local_problems(tarball.get("localSource"), f"{FIELD}.localSource")
    yield from _find_source_conflicts(tarball)
    yield from _find_version_problems(tarball)
    yield from find_unknown_fields(tarball, FIELD)


def validate_karmada(request: AdmissionRequest) -> Response:
    """Answer a review with all problems and warnings of ``spec.crdTarball``.

    Updates that do not change spec (for example the operator adding a finalizer) are admitted without warnings.
    Warnings are repeated at the next spec change.
    """
    answer = not_for_review(request, (KARMADA,))
    if answer is not None:
        return answer
    old = dict(as_object(request.old_object)) if request.operation == "UPDATE" else None
    if old is not None and old.get("spec") == request.object.get("spec"):
        return admission.allowed()
    warnings = tuple(find_warnings(request.object))
    found = first_problems(find_problems(request.object, old=old))
    if not found:
        return admission.allowed(warnings=warnings)
    causes = [StatusCause(field, text, "FieldValueInvalid") for field, text in found]
    return admission.invalid(aggregate_problems(found), causes, warnings=warnings)


def aggregate_problems(problems: Iterable[FieldError]) -> str:
    """Return the problems as one message, in the format of the upstream operator's condition."""
    return f"validation errors: [{' '.join(f'{problem.field}: {problem.text}' for problem in problems)}]"


def _find_source_conflicts(tarball: JSONObject) -> Iterator[FieldError]:
    if tarball.get("httpSource") is not None and tarball.get("localSource") is not None:
        text = "Forbidden: may not be set together with httpSource: set at most one source"
        yield FieldError(f"{FIELD}.localSource", text)


def _find_version_problems(tarball: JSONObject) -> Iterator[FieldError]:
    version, field = tarball.get("version"), f"{FIELD}.version"
    if version is None:
        return
    if not isinstance(version, str):
        yield mistyped(field, "a string")
    elif not is_release(version):
        yield invalid(field, version, "must be a release such as v1.10.0")
    # An httpSource without a URL only configures the download of the release.
    elif as_object(tarball.get("httpSource")).get("url") is not None:
        yield FieldError(field, "Forbidden: may not be set together with httpSource.url, which names the tarball")
    elif tarball.get("localSource") is not None:
        yield FieldError(field, "Forbidden: may not be set together with localSource, which names the tarball")


def _find_local_problems(source: JSON, field: str) -> Iterator[FieldError]:
    if source is None:
        return
    if not isinstance(source, dict):
        yield mistyped(field, "an object")
        return
    path, field = source.get("path"), f"{field}.path"
    if path is None or path == "":
        yield required(field)
    elif not isinstance(path, str):
        yield mistyped(field, "a string")
    elif len(path) > _MAX_PATH:
        yield too_long(field, _MAX_PATH)
    elif not path.startswith("/") or ".." in PurePosixPath(path).parts or "\0" in path:
        yield invalid(field, path, "must be an absolute path without '..'")


_CREDENTIALS_IN_URL: Final = (
    "the URL has credentials, and every user who can read this object can read them; use {instead}"
)


_PLAIN_HTTP: Final = "plain http without sha256: an attacker on the network can replace the CRDs"


def find_warnings(karmada: JSONObject) -> Iterator[str]:
    """Yield warnings about an instance; fields may have any type, and invalid fields get no warning."""
    tarball = as_object(as_object(karmada.get("spec")).get("crdTarball"))
    source = as_object(tarball.get("httpSource"))
    for field, url in _list_origins(source):
        if (parts := _parse(url)) is not None:
            yield from _find_origin_warnings(parts, f"{FIELD}.httpSource.{field}", pinned=bool(source.get("sha256")))
    proxy, field = _parse(as_object(source.get("proxy")).get("proxyURL")), f"{FIELD}.httpSource.proxy.proxyURL"
    if proxy is not None and proxy.user is not None:
        yield f"{field}: {_CREDENTIALS_IN_URL.format(instead='proxy.secretRef')}"
    if proxy is not None and proxy.scheme not in ("http", "https"):
        yield f"{field}: fleethook downloads through HTTP proxies only; Karmada's operator uses SOCKS proxies, too"
    if is_chosen_by_version(tarball) and (warning := read_instance_release(karmada).warning):
        yield warning


def warn_about_release(instance: str, operator: str) -> str:
    """Return the warning about images whose release differs from that of the CRDs."""
    return f"spec.components: the images are of {instance}, but the CRDs will be of {operator}"


def is_chosen_by_version(tarball: JSON) -> bool:
    """Return whether a version selects the tarball: no field names a URL, release or file."""
    given = as_object(tarball)
    named = as_object(given.get("httpSource")).get("url"), given.get("version")
    return all(member is None for member in (*named, given.get("localSource")))


def _list_origins(source: JSON) -> Iterator[tuple[str, JSON]]:
    yield "url", source.get("url")
    for index, mirror in _enumerate_list(source.get("mirrors"), limit=MAX_MIRRORS):
        yield f"mirrors[{index}]", mirror


def _find_origin_warnings(parts: RequestURI, field: str, *, pinned: bool) -> Iterator[str]:
    if parts.user is not None:
        yield f"{field}: {_CREDENTIALS_IN_URL.format(instead='secretRef')}"
    if parts.scheme == "http" and not pinned:
        yield f"{field}: {_PLAIN_HTTP}"


def _parse(url: JSON) -> RequestURI | None:
    if not isinstance(url, str) or len(url) > MAX_URL:
        return None
    try:
        return parse_url(url)
    except ValueError:
        return None


# Each suggestion compares the name with every known one. A request may have 100,000 names.
_MAX_FINDINGS: Final = 16
_MAX_NAME: Final = 64
# `find_reference_problems` admits a namespace if it is the instance's own.
_ALSO_KNOWN: Final[Mapping[type, tuple[str, ...]]] = {SecretReference: ("namespace",)}

Members = Mapping[str, "Members | None"]
"""The fields of an object, each with the fields below it; None for a field that is not an object."""


def find_unknown_fields(tarball: JSONObject, field: str) -> Iterator[FieldError]:
    """Yield the unknown fields of a ``crdTarball`` at any depth, each with the nearest known name.

    Args:
        tarball: The object; its fields may have any type.
        field: Path of the object.
    """
    unknown = _describe_unknown(tarball, field, _MEMBERS)
    yield from islice(unknown, _MAX_FINDINGS)
    more = sum(1 for _ in _walk_unknown(tarball, field, _MEMBERS)) - _MAX_FINDINGS
    if more > 0:
        yield FieldError(field, f"Forbidden: there are {more} more unknown fields")


def _describe_unknown(value: JSONObject, field: str, members: Members) -> Iterator[FieldError]:
    for path, name, known in _walk_unknown(value, field, members):
        yield FieldError(f"{path}.{_shorten(name)}", f"Forbidden: unknown field{_suggest(name, known)}")


def _walk_unknown(value: JSONObject, field: str, members: Members) -> Iterator[tuple[str, str, Members]]:
    """Yield the path of the object, the name and the known names for each unknown field."""
    for name, inner in value.items():
        if name not in members:
            yield field, name, members
        elif (below := members[name]) is not None and isinstance(inner, dict):
            yield from _walk_unknown(inner, f"{field}.{name}", below)


def _suggest(name: str, known: Members) -> str:
    if home := _find_home(name, _MEMBERS, "spec.crdTarball"):
        return f": it belongs in {home}"
    if (near := nearest(name, known)) is not None:
        return f"; did you mean {near}?"
    return f"; known are {', '.join(known)}"


def _find_home(name: str, members: Members, field: str) -> str:
    """Return the path of the first object with a field of this name; ``""`` without one."""
    if name in members:
        return field
    below = (_find_home(name, inner, f"{field}.{member}") for member, inner in members.items() if inner is not None)
    return next(filter(None, below), "")


def _shorten(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"


def _list_members(struct: type[msgspec.Struct]) -> Members:
    found: dict[str, Members | None] = {
        field.encode_name: None if (inner := _find_struct(field.type)) is None else _list_members(inner)
        for field in msgspec.structs.fields(struct)
    }
    return found | dict.fromkeys(_ALSO_KNOWN.get(struct, ()))


def _find_struct(annotation: Any) -> type[msgspec.Struct] | None:
    """Return the struct in an annotation, alone or in a union with None."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _find_struct(typing.get_args(annotation)[0])
    if origin in (types.UnionType, typing.Union):
        return next(filter(None, map(_find_struct, typing.get_args(annotation))), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct) else None


_MEMBERS: Final = _list_members(CRDTarball)
