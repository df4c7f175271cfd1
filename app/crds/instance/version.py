"""Which release's CRDs are meant, by the operator's own version (research 1.4)."""

import re
from typing import Final

from app.crds.failures import CRDsError, Exit

_URL: Final = "https://github.com/karmada-io/karmada/releases/download/{version}/crds.tar.gz"
_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_IDENTIFIERS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SEMANTIC: Final = re.compile(
    rf"v?(?P<version>{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_IDENTIFIERS})?(?:\+{_IDENTIFIERS})?)", re.ASCII
)
_RELEASE: Final = re.compile(rf"v{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-(?:alpha|beta|rc)\.{_NUMBER})?", re.ASCII)
# As in pkg/version/release.go: what `git describe` adds; a longer hash goes with what follows it.
_COMMITS: Final = re.compile(r"-[0-9]+-g[0-9a-z]{7}")


def is_release(text: str) -> bool:
    """Return whether a text is the name of a release of Karmada, as its tags and images have it."""
    return _RELEASE.fullmatch(text) is not None


def parse_release(version: str) -> str:
    """Return the release that a version of the operator is of: ``v1.1.1-6-gf20c721a`` is of ``v1.1.1``.

    Raises:
        CRDsError: It is no semantic version. Upstream goes on with the release ``<nil>`` and fails with this text.
    """
    found = _SEMANTIC.fullmatch(version.strip())
    if found is None:
        text = f"unexpected karmada invalid version <nil>: {version!r} is no semantic version such as v1.10.0"
        raise CRDsError(Exit.USAGE, text)
    return f"v{_COMMITS.split(found['version'], maxsplit=1)[0]}"


def build_release_url(release: str) -> str:
    """Return where the tarball of a release is."""
    return _URL.format(version=release)
