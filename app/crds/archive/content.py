"""What has to be in a CRD tarball (research 6.5, phase 3; what the Go operator does with it: research 2.5)."""

import posixpath
from collections.abc import Iterator
from typing import Final

from app.crds.archive.yaml_head import NotYAMLError, read_head
from app.crds.archive.yaml_lines import KnownLines
from app.crds.failures import CRDsError, Exit

REQUIRED: Final = ("crds", "crds/bases", "crds/patches")
"""The directories that the Go operator looks for (upstream: operator/pkg/tasks/init/crd.go, postCheck)."""
_BASES: Final = "crds/bases/"
_PATCHES: Final = "crds/patches/"
_API_VERSION: Final = "apiextensions.k8s.io/v1"
_KIND: Final = "CustomResourceDefinition"
_PATCHED_GROUP: Final = "work.karmada.io"  # hard-coded upstream (research 2.5)
_GROUPS: Final = (".karmada.io", ".x-k8s.io")


class Content:
    """The CRDs and patches seen so far."""

    def __init__(self) -> None:
        self._crds: Final[dict[str, str]] = {}
        self._patches: Final[list[str]] = []
        self._lines: Final = KnownLines()
        self.warnings: Final[list[str]] = []

    def add(self, path: str, body: bytes) -> None:
        """Look at a file.

        Raises:
            CRDsError: ARCHIVE when it should be a CRD and is none, or one that another file has as well.
        """
        if not path.startswith((_BASES, _PATCHES)):
            return
        if path.endswith(".yml"):
            self.warnings.append(f"{path} is not applied: only files called *.yaml are")
        elif path.startswith(_PATCHES) and path.endswith(".yaml"):
            self._patches.append(path)
        elif path.endswith(".yaml"):
            self._add_crd(path, body)

    def finish(self, directories: set[str]) -> tuple[str, ...]:
        """Return the warnings, now that everything has been seen.

        Raises:
            CRDsError: ARCHIVE when a directory or all CRDs are missing, or a patch is for a CRD that is not there.
        """
        for missing in (directory for directory in REQUIRED if directory not in directories):
            raise CRDsError(Exit.ARCHIVE, f"Lacking the necessary file path: {missing}")
        if not self._crds:
            raise CRDsError(Exit.ARCHIVE, "there is no CRD under crds/bases")
        for path in self._patches:
            target = patched_crd(path)
            if target not in self._crds:
                raise CRDsError(Exit.ARCHIVE, f"{path} patches {target}, which the tarball does not have")
        return tuple(self.warnings)

    def _add_crd(self, path: str, body: bytes) -> None:
        try:
            head = read_head(body, self._lines)
        except NotYAMLError as error:
            raise CRDsError(Exit.ARCHIVE, f"{path} cannot be read: {error}") from None
        if (head.api_version, head.kind) != (_API_VERSION, _KIND):
            raise CRDsError(Exit.ARCHIVE, f"{path} is not a {_KIND} of {_API_VERSION}")
        # An apiserver takes a CRD only as <plural>.<group>.
        if not head.group or not head.name.endswith(f".{head.group}"):
            raise CRDsError(Exit.ARCHIVE, f"{path} is called {head.name!r}, which is no CRD of group {head.group!r}")
        if other := self._crds.get(head.name):
            raise CRDsError(Exit.ARCHIVE, f"{path} has the same CRD as {other}: {head.name}")
        self._crds[head.name] = path
        self.warnings.extend(_warnings(path, head.group, head.documents))


def patched_crd(path: str) -> str:
    """Tell which CRD a patch is for, by its file name alone (upstream: patches in karmadaresource.go; research 2.5)."""
    name = posixpath.basename(path).rpartition("_")[2]
    return f"{name.partition('.')[0]}.{_PATCHED_GROUP}"


def _warnings(path: str, group: str, documents: int) -> Iterator[str]:
    if not f".{group}".endswith(_GROUPS):
        yield f"{path} has a CRD of group {group}, which is none of Karmada's"
    if documents > 1:
        yield f"{path} has {documents} documents: only the first is applied"
