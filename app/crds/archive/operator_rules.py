"""Whether Karmada's own operator can use a tarball that we can use.

Upstream: `Unpack` in operator/pkg/util/util.go, and `ValidateTarball` in pkg/util/validation.
"""

import posixpath
from typing import Final

from app.crds.archive import tar

_MAX_PROBLEMS: Final = 16
_DOT: Final = "./"


class OperatorRules:
    """Finds the reasons why Karmada's operator cannot use a tarball; entries are passed in their order."""

    def __init__(self) -> None:
        """Begin."""
        self._directories: Final[set[str]] = set()
        self._problems: Final[list[str]] = []

    def look(self, entry: tar.Entry) -> None:
        """Look at the next entry, which our own rules have admitted."""
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.extend([problem] if (problem := self._find_problem(entry)) else [])

    def problems(self) -> tuple[str, ...]:
        """Return why the operator cannot use the tarball, the first ones of many; none if it can."""
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
                return f"the directory {entry.name} is there twice (file exists)"
            self._directories.add(path)
        return ""
