"""The CRDs and patches of a tarball, in the order of Karmada's operator.

Upstream: operator/pkg/tasks/init/karmadaresource.go (v1.17.1), which walks ``crds/bases``, then ``crds/patches``.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from fleethook.engines.crds.archive.content import read_document
from fleethook.engines.crds.archive.limits import LIMITS, ArchiveLimits, YAMLBudget
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.model.formats.names import is_dns1123_subdomain
from fleethook.model.json import JSONObject, as_object

_BASES: Final = "crds/bases/"
_PATCHES: Final = "crds/patches/"


class Tree(NamedTuple):
    """The CRDs and patches of a tarball."""

    crds: Mapping[str, JSONObject]
    """CRDs by name, in the order of their files."""
    patches: Mapping[str, str]
    """Texts of patches by path, in order, with their placeholders."""


def read_files(files: Mapping[str, bytes], limits: ArchiveLimits = LIMITS) -> Tree:
    """Parse the files of a verified tarball.

    Args:
        files: Content by path.
        limits: Limits of the YAML of all files together.

    Raises:
        CRDsError: ARCHIVE if a file is not a YAML object or has no valid name; LIMIT if the YAML is too large.
    """
    budget = YAMLBudget(limits)
    bases = [(path, read_first_document(path, files[path], budget)) for path in _list_paths(files, _BASES)]
    patches = {path: _decode(path, files[path]) for path in _list_paths(files, _PATCHES)}
    return Tree({_read_name(path, document): document for path, document in bases}, patches)


def read_first_document(path: str, body: bytes, budget: YAMLBudget) -> JSONObject:
    """Return the first document of a file, read as Kubernetes' tools read YAML.

    Raises:
        CRDsError: ARCHIVE or LIMIT, naming the path, as `fleethook.engines.crds.archive.content.read_document`.
    """
    document = read_document(path, body, budget).value
    if not isinstance(document, dict):
        raise CRDsError(Exit.ARCHIVE, f"{path} is no object")
    return document


def _list_paths(files: Mapping[str, bytes], below: str) -> list[str]:
    # Sorted by path components, as Go's filepath.Walk does: a directory `a` comes before a file `a.yaml`.
    names = [path for path in files if path.startswith(below) and path.endswith(".yaml")]
    return sorted(names, key=lambda path: path.split("/"))


def _decode(path: str, body: bytes) -> str:
    try:
        return body.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise CRDsError(Exit.ARCHIVE, f"{path} cannot be read: it is not UTF-8") from None


def _read_name(path: str, document: JSONObject) -> str:
    name = as_object(document.get("metadata")).get("name")
    # The name becomes a part of a request's path.
    if not isinstance(name, str) or not is_dns1123_subdomain(name):
        raise CRDsError(Exit.ARCHIVE, f"{path} is called {name!r}, which is no DNS subdomain")
    return name
