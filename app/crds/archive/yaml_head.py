"""What a YAML manifest calls itself, without building what it describes.

The whole text is read, so that one that is no YAML is found, but only a few scalars are kept: a loader would build what
merge keys and aliases add up to (exponential in the size of the text), and it recurses into brackets. What is laid out
as controller-gen does it is read by lines (`yaml_lines`); events of a parser, each an object, take six times as long.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import yaml

from app.crds.archive.yaml_lines import KnownLines, Path, read_lines

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MOST_DEPTH: Final = 200  # a CRD with a pod template in its schema has about 50
_PATHS: Final[tuple[Path, ...]] = (("apiVersion",), ("kind",), ("metadata", "name"), ("spec", "group"))
_DEEPEST: Final = max(map(len, _PATHS))


class Head(NamedTuple):
    """The scalars of the first document, ``""`` where there is none, and how many documents there are."""

    api_version: str
    kind: str
    name: str
    group: str
    documents: int


class NotYAMLError(Exception):
    """The text cannot be read, or has in it what no manifest needs."""


def read_head(body: bytes, known: KnownLines | None = None) -> Head:
    """Read the head of a manifest.

    Arguments:
        body: The manifest.
        known: Lines of other manifests that this one may have too; grows.

    Raises:
        NotYAMLError: It is no UTF-8 or no YAML, has aliases, more than 200 levels, or one of the members twice.
    """
    try:
        text = body.decode()
        lines = read_lines(text, _PATHS, KnownLines() if known is None else known)
        found, documents = (lines, 1) if lines is not None else _scan(yaml.parse(text, Loader=_LOADER))
    except UnicodeDecodeError:
        raise NotYAMLError("it is not UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise NotYAMLError(f"it is no YAML{where}: {getattr(error, 'problem', None) or 'odd characters'}") from None
    api_version, kind, name, group = (found.get(path, "") for path in _PATHS)
    return Head(api_version, kind, name, group, documents)


class _Level:
    """An open mapping or sequence, and the key whose value comes next."""

    __slots__ = ("awaits_key", "key", "mapping")

    def __init__(self, *, mapping: bool) -> None:
        self.mapping: Final = mapping
        self.awaits_key = mapping
        self.key: str | None = None


def _scan(events: Iterable[Any]) -> tuple[dict[tuple[str | None, ...], str], int]:
    found: dict[tuple[str | None, ...], str] = {}
    levels: list[_Level] = []
    documents = 0
    for event in events:
        if isinstance(event, yaml.ScalarEvent):
            # Most of a CRD is deeper than anything looked for.
            if len(levels) <= _DEEPEST:
                _note(found, _place(levels, event.value), event.value, first=documents == 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            _place(levels, None)
            levels.append(_Level(mapping=isinstance(event, yaml.MappingStartEvent)))
            if len(levels) > _MOST_DEPTH:
                raise NotYAMLError(f"it has more than {_MOST_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            levels.pop()
        elif isinstance(event, yaml.AliasEvent):
            raise NotYAMLError("it has aliases")
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
    return found, documents


def _place(levels: list[_Level], value: str | None) -> tuple[str | None, ...]:
    """Tell where a node stands, () for a key or none of interest; the value is that of a scalar."""
    if not levels or len(levels) > _DEEPEST or not levels[-1].mapping:
        return ()
    level = levels[-1]
    level.awaits_key = not level.awaits_key
    if not level.awaits_key:
        level.key = value
        return ()
    return tuple(above.key for above in levels)


def _note(found: dict[tuple[str | None, ...], str], path: tuple[str | None, ...], value: str, *, first: bool) -> None:
    if not first or path not in _PATHS:
        return
    if path in found:
        # The last one counts for some readers, the first for others.
        raise NotYAMLError(f"it has {'.'.join(filter(None, path))} twice")
    found[path] = value
