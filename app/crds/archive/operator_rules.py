"""Checks whether Karmada's operator can also use a tarball that fleethook accepts.

Upstream: `Unpack` in operator/pkg/util/util.go, and `ValidateTarball` in pkg/util/validation.
"""

import posixpath
from typing import Final

from app.crds.archive import tar

_MAX_PROBLEMS: Final = 16
_DOT: Final = "./"


class OperatorRules:
    """Finds the reasons why Karmada's operator cannot use a tarball. Pass the entries in order."""

    def __init__(self) -> None:
        """Create it for one tarball."""
        self._directories: Final[set[str]] = set()
        self._problems: Final[list[str]] = []

    def look(self, entry: tar.Entry) -> None:
        """Check the next entry; `Names` must have admitted it."""
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.extend([problem] if (problem := self._find_problem(entry)) else [])

    def problems(self) -> tuple[str, ...]:
        """Return the first reasons why the operator cannot use the tarball; none if it can."""
        return tuple(self._problems)

    def _find_problem(self, entry: tar.Entry) -> str:
        if entry.kind == tar.PAX_GLOBAL:
            return "it has a pax global header, as `git archive` writes it (unknown type: 103)"
        path = entry.name.removesuffix("/")
        if entry.name.startswith(_DOT) or path == ".":
            return f"the name {entry.name} begins with ./ (unclean file dir or path)"
        parent = posixpath.dirname(path)
        if parent and parent not in self._directories:
            return f"{entry.name} comes before an entry for its directory {parent}/ (no such file or directory)"
        if entry.kind == tar.DIRECTORY:
            if path in self._directories:
                return f"the directory {entry.name} has two entries (file exists)"
            self._directories.add(path)
        return ""
