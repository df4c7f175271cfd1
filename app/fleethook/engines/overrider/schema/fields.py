"""The fields of the Go types behind Deployment and StatefulSet (k8s.io/api), from ``fields.json``."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal

import msgspec

Kind = Literal["Deployment", "StatefulSet"]

_FILE: Final = "fields.json"


class Field(msgspec.Struct, frozen=True, rename="camel"):
    """One member of a struct."""

    type: str
    """A Go type expression such as ``*int32``, ``[]core.v1.Container`` or ``map[string]string``.

    Structs have their OpenAPI name. Named strings and integers have the name of their kind. ``Quantity``,
    ``ResourceList``, ``IntOrString``, ``Time`` and ``Raw`` have their own encoders.
    """
    omit: Literal["", "empty", "zero"] = ""
    """The ``omitempty`` or ``omitzero`` of the JSON tag."""
    keys: Mapping[str, str | None] | None = None
    """The members that identify an element of this list to server-side apply, with their defaults.

    Source: ``x-kubernetes-list-map-keys``. None for atomic lists, for sets and for other types.
    """
    patch_key: str = ""
    """The ``patchMergeKey`` of strategic merge patches."""
    patch_strategy: str = ""
    """The ``patchStrategy`` of strategic merge patches."""


Struct = Mapping[str, Field]
"""The members of a struct by their JSON names, embedded structs flattened."""


# msgspec describes a type at its first use. In two threads at once, this crashes the process.
_decode_structs: Final = msgspec.json.Decoder(dict[str, dict[str, Field]]).decode


@cache
def load_structs() -> Mapping[str, Struct]:
    """Return all structs by their names, such as ``core.v1.Container``."""
    text = Path(__file__).with_name(_FILE).read_bytes()
    return _decode_structs(text)


def root_name(kind: Kind) -> str:
    """Return the name of the struct of a kind."""
    return f"apps.v1.{kind}"


def struct_name(type_: str) -> str | None:
    """Return the struct that a type expression refers to, or that its elements have; None if there is none."""
    name = type_.removeprefix("map[string]").lstrip("*[]")
    return name if "." in name else None
