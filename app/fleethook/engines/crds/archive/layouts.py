"""The layouts of CRD tarballs: those of Karmada's releases, and the archives that users mistake for one.

Upstream: charts/_crds (v0.9 to v1.2), charts/karmada/_crds (since v1.3) and .github/workflows/release.yml (since v1.7).
"""

import re
from collections.abc import Collection
from typing import Final

from fleethook.engines.crds.archive.content import BASES, MAC_METADATA
from fleethook.engines.crds.archive.names import TOP

_PACK: Final = f"`tar -czf crds.tar.gz {TOP}` in its parent directory"
_FOREIGN: Final = (
    (
        re.compile(r"((?:[^/]+/)*_crds)(?:/|$)"),
        f"this is the layout of Karmada's repository and chart: unpack it, rename {{0}} to {TOP}, pack it by {_PACK}",
    ),
    (
        re.compile(rf"((?:[^/]+/)+){TOP}/bases(?:/|$)"),
        f"the directory {TOP} is below {{0}}: unpack it, and pack {{0}}{TOP} by {_PACK}",
    ),
    (
        re.compile(r"((?:[^/]+/)*artifacts/deploy)/[a-z0-9.]+\.karmada\.io_[a-z]+\.yaml$"),
        "this is the layout of Karmada releases before 0.9, whose CRDs are in {0}: use a later release",
    ),
    (
        re.compile(r"(?:\./)?(?:(?:bases|patches)(?:/|$)|kustomization\.yaml$|[a-z0-9.-]+_[a-z]+\.yaml$)"),
        f"this is the content of the directory {TOP} without the directory: pack it by {_PACK}",
    ),
    (re.compile(r"(?:.*/)?\._[^/]+"), MAC_METADATA),
)
"""Archives of another layout, by the name of an entry, and the advice for each. The first one that fits a name wins."""


def advise(names: Collection[str]) -> str:
    """Return the layout of an archive that is no CRD tarball, and how to make one of it; `""` if it is unknown."""
    for pattern, advice in _FOREIGN:
        if found := next(filter(None, map(pattern.match, names)), None):
            return advice.format(*found.groups())
    return ""


def describe(files: Collection[str]) -> str:
    """Return the layout of a verified tarball, with the releases that have it."""
    below = [path.removeprefix(BASES) for path in files if path.startswith(BASES) and path.endswith(".yaml")]
    grouped = sum("/" in path for path in below)
    if grouped == len(below):
        return f"a directory below {BASES} for each API group, as in Karmada 1.7 and later"
    return f"{'all' if not grouped else 'some'} CRDs directly in {BASES}, as in Karmada 0.9 to 1.6"
