"""Parses versions of Karmada's operator into releases, and builds the URLs of their tarballs.

Upstream: pkg/version/release.go and operator/pkg/init.go (v1.17.1).
"""

import re
from typing import Final

from fleethook.engines.crds.crds_errors import CRDsError, Exit

_URL: Final = "https://github.com/karmada-io/karmada/releases/download/{version}/crds.tar.gz"
_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_IDENTIFIERS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SEMANTIC: Final = re.compile(
    rf"v?(?P<version>{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_IDENTIFIERS})?(?:\+{_IDENTIFIERS})?)", re.ASCII
)
_RELEASE: Final = re.compile(rf"v{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-(?:alpha|beta|rc)\.{_NUMBER})?", re.ASCII)
# The suffix of `git describe`, as in pkg/version/release.go.
_COMMITS: Final = re.compile(r"-[0-9]+-g[0-9a-z]{7}")


def is_release(text: str) -> bool:
    """Return whether a text is the name of a Karmada release, as in its tags and images."""
    return _RELEASE.fullmatch(text) is not None


def parse_release(version: str) -> str:
    """Return the release of an operator's version: ``v1.1.1`` for ``v1.1.1-6-gf20c721a``.

    Raises:
        CRDsError: The version is not a semantic version. Upstream continues with the release ``<nil>`` and fails with
            this message.
    """
    found = _SEMANTIC.fullmatch(version.strip())
    if found is None:
        text = f"unexpected karmada invalid version <nil>: {version!r} is not a semantic version such as v1.10.0"
        raise CRDsError(Exit.USAGE, text)
    return f"v{_COMMITS.split(found['version'], maxsplit=1)[0]}"


def build_release_url(release: str) -> str:
    """Return the URL of a release's tarball."""
    return _URL.format(version=release)
