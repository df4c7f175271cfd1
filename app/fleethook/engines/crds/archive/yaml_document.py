"""Reads the first document of a YAML file with libyaml, within the budget of its tarball.

libyaml's events are counted before objects are built from the text. A loader would expand aliases exponentially and
recurse into brackets.
"""

import re
from typing import Any, Final, NamedTuple

import yaml

from fleethook.cluster.manifests.yaml_reader import ManifestError, read_values
from fleethook.engines.crds.archive.limits import YAMLBudget
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.model.json import JSON

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# libyaml compares each %TAG directive with all before it: 700,000 of them, 8 MiB, would take an hour.
_DIRECTIVE: Final = re.compile(r"^%", re.MULTILINE)
_MAX_MESSAGE: Final = 500  # characters: a tag or a key may have 8 MiB
_BYTE_ORDER_MARK: Final = "\ufeff"


class YAMLDocument(NamedTuple):
    """The first document of a file."""

    value: JSON
    """None for a file without a document, and for an empty first document."""
    documents: int
    """How many documents the file has. Karmada's operator applies only the first one."""


def read_document(path: str, body: bytes, budget: YAMLBudget) -> YAMLDocument:
    """Read a file as Kubernetes tools read YAML; later documents are parsed, but no objects are built from them.

    Args:
        path: The file's name for errors.
        body: The file.
        budget: The limits that the files of one tarball share. Reading takes from them.

    Raises:
        CRDsError: LIMIT beyond the budget. ARCHIVE, with the path: the file is not UTF-8 or not YAML, or has aliases,
            directives, duplicate keys, too many levels, or values that JSON does not have.
    """
    budget.take_bytes(path, len(body))
    try:
        text = body.decode().removeprefix(_BYTE_ORDER_MARK)
    except UnicodeDecodeError:
        raise _make_error(path, "it is not UTF-8") from None
    if _DIRECTIVE.search(text):
        raise _make_error(path, "it has a directive (a line that begins with %)")
    documents, end = _check_events(path, text, budget)
    try:
        values = read_values(text[:end] if documents > 1 else text, source=path)
    except ManifestError as error:
        raise CRDsError(Exit.ARCHIVE, f"{error!s:.{_MAX_MESSAGE}}") from None
    return YAMLDocument(values[0].value if values else None, documents)


def _check_events(path: str, text: str, budget: YAMLBudget) -> tuple[int, int]:
    """Return the number of documents and the end position of the first one; raises as `read_document`."""
    documents = depth = end = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.ScalarEvent):
                budget.take_node(path)
            elif isinstance(event, yaml.CollectionStartEvent):
                budget.take_node(path)
                depth += 1
                if depth > budget.limits.yaml_depth:
                    raise _make_error(path, f"it has more than {budget.limits.yaml_depth} levels")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.AliasEvent):
                raise _make_error(path, "it has aliases")
            elif isinstance(event, yaml.DocumentEndEvent):
                documents += 1
                mark: Any = event.end_mark
                end = mark.index if documents == 1 else end
    except yaml.YAMLError as error:
        raise _make_error(path, _describe(error)) from None
    return documents, end


def _describe(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f" in line {mark.line + 1}" if mark else ""
    return f"it is not YAML{where}: {getattr(error, 'problem', None) or 'a character that YAML does not allow'}"


def _make_error(path: str, reason: str) -> CRDsError:
    return CRDsError(Exit.ARCHIVE, f"{path} cannot be read: {reason}")
