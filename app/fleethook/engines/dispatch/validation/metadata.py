"""Validates the metadata of a webhook configuration (k8s.io/apimachinery/pkg/api/validation/objectmeta.go).

The apiserver validates owners, finalizers and managed fields of every kind, so they are not validated here.
"""

from collections.abc import Iterator
from typing import Final

from fleethook.model.formats.field_errors import Problem, invalid, mistyped, required, subdomain_problems
from fleethook.model.formats.names import label_key_problems, labels_problems
from fleethook.model.json import JSON, as_object

_MAX_ANNOTATIONS: Final = 256 * 1024  # bytes of all keys and values (apimachinery: TotalAnnotationSizeLimitB)
_STATIC_SUFFIX: Final = ".static.k8s.io"


def metadata_problems(metadata: JSON, field: str) -> Iterator[Problem]:
    """Yield the errors in the metadata of a cluster-scoped object."""
    if metadata is not None and not isinstance(metadata, dict):
        yield mistyped(field, "an object")
        return
    members = as_object(metadata)
    texts: dict[str, str] = {}
    for member in ("generateName", "name", "namespace"):
        value = members.get(member)
        if value is not None and not isinstance(value, str):
            yield mistyped(f"{field}.{member}", "a string")
        else:
            texts[member] = value or ""
    yield from _name_problems(texts, field)
    if texts.get("namespace"):
        yield Problem(f"{field}.namespace", "Forbidden: not allowed on this type")
    yield from labels_problems(members.get("labels"), f"{field}.labels")
    yield from _annotation_problems(members.get("annotations"), f"{field}.annotations")


def _name_problems(texts: dict[str, str], field: str) -> Iterator[Problem]:
    prefix, name = texts.get("generateName"), texts.get("name")
    if prefix:
        # A suffix follows a trailing dash before the prefix becomes a name.
        likely = f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        yield from (invalid(f"{field}.generateName", prefix, text) for text in subdomain_problems(likely))
    if name:
        yield from (invalid(f"{field}.name", name, text) for text in subdomain_problems(name))
    elif name is not None and not prefix:
        yield required(f"{field}.name", "name or generateName is required")


def _annotation_problems(annotations: JSON, field: str) -> Iterator[Problem]:
    if annotations is None:
        return
    if not isinstance(annotations, dict):
        yield mistyped(field, "an object")
        return
    size = 0
    for key, value in annotations.items():
        name = str(key)
        yield from (invalid(field, name, text) for text in label_key_problems(name.lower()))
        if value is not None and not isinstance(value, str):
            yield mistyped(field, "an object of strings")
        size += sum(len(text.encode(errors="replace")) for text in (name, value) if isinstance(text, str))
    if size > _MAX_ANNOTATIONS:
        yield Problem(field, f"Too long: may not be more than {_MAX_ANNOTATIONS} bytes")


def static_name_warning(metadata: JSON) -> Iterator[str]:
    """Yield an apiserver's warning about a name that is reserved for static manifests."""
    name = as_object(metadata).get("name")
    if isinstance(name, str) and name.endswith(_STATIC_SUFFIX):
        yield (
            f'metadata.name: names ending with "{_STATIC_SUFFIX}" are reserved for static manifest-based '
            "configurations and cannot be managed via the API"
        )
