"""Findings about the objects of files: fields, kinds and versions that their APIs lack, with files and lines."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fleethook.api_schema import Definitions, SchemaFinding, check_object
from fleethook.cluster.manifests.yaml_reader import Document, FieldLines
from fleethook.cluster.store import ObjectKey, key_of


class ObjectFinding(NamedTuple):
    """A finding about an object of a file."""

    key: ObjectKey
    finding: SchemaFinding
    place: str
    """``FILE:LINE`` of the field."""

    @property
    def text(self) -> str:
        """The object, field and message on one line, without place and level."""
        name = f"{self.key.namespace}/{self.key.name}" if self.key.namespace else self.key.name
        inside = f" of {self.key.cluster}" if self.key.cluster else ""
        return f"{self.key.group_kind.kind} {name}{inside}: {self.finding.field}: {self.finding.message}"


def check_objects(documents: Iterable[Document], definitions: Definitions) -> Iterator[ObjectFinding]:
    """Yield the findings about objects, by object and line. Objects of a cluster are as its own API has them.

    Args:
        documents: The objects.
        definitions: The CustomResourceDefinitions of the files, and of other files beside them.
    """
    lines = FieldLines()
    for document in (one for one in documents if one.line):
        found = check_object(document.object, definitions)
        located = sorted((lines.line(document, one.field), one) for one in found)
        for line, one in located:
            yield ObjectFinding(key_of(document.object), one, document._replace(line=line).place)
