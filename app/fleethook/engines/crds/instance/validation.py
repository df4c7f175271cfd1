"""Validates ``spec.crdTarball`` of an instance.

Messages and order are those of upstream where upstream refuses a field (operator/pkg/controller/karmada/validating.go,
v1.17.1). Upstream parses URLs only, and admits values that fail at the download; fleethook refuses them here.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from fleethook.engines.crds.instance.http_validation import find_http_problems, find_reference_problems
from fleethook.engines.crds.instance.unknown_fields import find_unknown_fields
from fleethook.engines.crds.instance.version import is_release
from fleethook.model.formats.field_errors import (
    Problem,
    choice_problems,
    invalid,
    mistyped,
    required,
    subdomain_problems,
    too_long,
)
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.operator import POLICIES

FIELD: Final = "spec.crdTarball"

_SOURCES: Final = ("httpSource", "localSource", "configMapSource")
_MAX_PATH: Final = 4096
_MAX_KEY: Final = 253
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")


def find_problems(karmada: JSONObject, *, old: JSONObject | None = None, strict: bool = False) -> Iterator[Problem]:
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
    yield from choice_problems(tarball.get("crdDownloadPolicy"), f"{FIELD}.crdDownloadPolicy", POLICIES)
    yield from _find_local_problems(tarball.get("localSource"), f"{FIELD}.localSource")
    yield from _find_config_map_problems(
        tarball.get("configMapSource"), f"{FIELD}.configMapSource", namespace=namespace
    )
    yield from _find_source_conflicts(tarball)
    yield from _find_version_problems(tarball)
    yield from find_unknown_fields(tarball, FIELD)


def aggregate_problems(found: Iterable[Problem]) -> str:
    """Return the problems as one message, in the format of the upstream operator's condition."""
    return f"validation errors: [{' '.join(f'{problem.field}: {problem.text}' for problem in found)}]"


def _find_source_conflicts(tarball: JSONObject) -> Iterator[Problem]:
    first, *others = [name for name in _SOURCES if tarball.get(name) is not None] or [""]
    for other in others:
        yield Problem(f"{FIELD}.{other}", f"Forbidden: may not be set together with {first}: set at most one source")


def _find_version_problems(tarball: JSONObject) -> Iterator[Problem]:
    version, field = tarball.get("version"), f"{FIELD}.version"
    if version is None:
        return
    if not isinstance(version, str):
        yield mistyped(field, "a string")
    elif not is_release(version):
        yield invalid(field, version, "must be a release such as v1.10.0")
    # An httpSource without a URL only configures the download of the release.
    elif as_object(tarball.get("httpSource")).get("url") is not None:
        yield Problem(field, "Forbidden: may not be set together with httpSource.url, which names the tarball")
    elif named := next((name for name in _SOURCES[1:] if tarball.get(name) is not None), ""):
        yield Problem(field, f"Forbidden: may not be set together with {named}, which names the tarball")


def _find_local_problems(source: JSON, field: str) -> Iterator[Problem]:
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


def _find_config_map_problems(source: JSON, field: str, *, namespace: JSON) -> Iterator[Problem]:
    yield from find_reference_problems(source, field, namespace=namespace)
    if not isinstance(source, dict):
        return
    key = source.get("key")
    if isinstance(source.get("name"), str):
        yield from (invalid(f"{field}.name", source["name"], text) for text in subdomain_problems(source["name"]))
    if key is None:
        return
    if not isinstance(key, str):
        yield mistyped(f"{field}.key", "a string")
    elif len(key) > _MAX_KEY or not _KEY.fullmatch(key):
        yield invalid(f"{field}.key", key, "must consist of letters, digits, '-', '_' and '.'")
