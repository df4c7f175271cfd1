"""What an unpacked tarball says, in the order in which the Go operator takes it (research 2.5)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from app.crds.archive.yaml_head import NotYAMLError, read_head
from app.crds.failures import CRDsError, Exit
from app.model.json import JSONObject, as_object
from app.model.meta import is_dns1123_subdomain
from app.store.yaml_reader import ManifestError, read_values

_BASES: Final = "crds/bases"
_PATCHES: Final = "crds/patches"
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Tree(NamedTuple):
    """The files that are applied."""

    crds: Mapping[str, JSONObject]
    """By name, in the order of their files."""
    patches: Mapping[str, str]
    """Texts by path, their placeholders as they are, in order."""


def read_tree(directory: Path) -> Tree:
    """Return what is in ``crds/`` of a directory whose tarball has been verified.

    Raises:
        CRDsError: ARCHIVE when a file is no YAML, no object or has no name that an apiserver would take; DISK when one
            cannot be read.
    """
    try:
        documents = [(path, first_document(path, text)) for path, text in _texts(directory, _BASES)]
        patches = dict(_texts(directory, _PATCHES))
    except OSError as error:
        raise CRDsError(Exit.DISK, f"cannot read {directory}: {error.strerror or error}") from error
    return Tree({_name(path, document): document for path, document in documents}, patches)


def first_document(path: str, text: str) -> JSONObject:
    """Return the first document of a text, read as Kubernetes' tools read YAML; what follows it is not looked into.

    Raises:
        CRDsError: ARCHIVE, naming the path: it is no YAML, has aliases, too many levels, or is no object.
    """
    try:
        # Before anything is built from the text: it bounds the levels, and finds aliases.
        head = read_head(text.encode())
        values = read_values(_until_second(text) if head.documents > 1 else text, source=path)
    except NotYAMLError as error:
        raise CRDsError(Exit.ARCHIVE, f"{path} cannot be read: {error}") from None
    except ManifestError as error:
        raise CRDsError(Exit.ARCHIVE, str(error)) from None
    document = values[0].value if values else None
    if not isinstance(document, dict):
        raise CRDsError(Exit.ARCHIVE, f"{path} is no object")
    return document


def _texts(directory: Path, below: str) -> Iterator[tuple[str, str]]:
    # By the parts of the path, as Go's filepath.Walk goes: a directory `a` comes before a file `a.yaml`.
    for file in sorted((directory / below).rglob("*.yaml"), key=lambda path: path.parts):
        if not file.is_file():
            continue
        path = file.relative_to(directory).as_posix()
        try:
            yield path, file.read_bytes().decode().removeprefix("\ufeff")
        except UnicodeDecodeError:
            raise CRDsError(Exit.ARCHIVE, f"{path} cannot be read: it is not UTF-8") from None


def _until_second(text: str) -> str:
    events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
    ends = (mark.index for event in events if isinstance(event, yaml.DocumentEndEvent) and (mark := event.end_mark))
    return text[: next(ends)]


def _name(path: str, document: JSONObject) -> str:
    name = as_object(document.get("metadata")).get("name")
    # It becomes a part of the address that is asked.
    if not isinstance(name, str) or not is_dns1123_subdomain(name):
        raise CRDsError(Exit.ARCHIVE, f"{path} is called {name!r}, which is no DNS subdomain")
    return name
