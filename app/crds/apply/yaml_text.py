"""Writes objects as YAML that all YAML readers of Kubernetes tools parse alike."""

import re
from collections.abc import Iterable
from typing import Any, Final

import yaml

from app.model.json import JSON
from app.model.text import is_inert
from app.store.yaml_scalars import quote_texts

_BASE: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@quote_texts
class _Dumper(_BASE):  # type: ignore[misc]
    """Writes no aliases, and quotes strings that some reader takes for another type."""

    def ignore_aliases(self, _: object) -> bool:
        return True


# Strings that YAML 1.1 or YAML 1.2 read as a number or a boolean, and PyYAML does not.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?\.?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?0[oOxXbB]?[0-9a-fA-F_]*$"), list("-+0"))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]$"), list("yYnN"))


def dump(objects: Iterable[JSON]) -> str:
    """Return a stream of documents, each preceded by ``---``.

    If a text has characters that control a terminal, all characters beyond ASCII are written as YAML escapes.
    """
    found = list(objects)
    text = _dump_all(found, allow_unicode=True)
    return text if is_inert(text.replace("\n", "")) else _dump_all(found, allow_unicode=False)


def _dump_all(objects: list[JSON], *, allow_unicode: bool) -> str:
    text: str = yaml.dump_all(
        objects, Dumper=_Dumper, explicit_start=True, sort_keys=False, allow_unicode=allow_unicode
    )
    return text
