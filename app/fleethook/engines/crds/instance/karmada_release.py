"""Releases of Karmada: their names, the URLs of their tarballs, and the release of an instance's images.

Upstream: pkg/version/release.go and operator/pkg/init.go (v1.17.1). Upstream's proposal has the release of the images
as a goal (docs/proposals/karmada-operator/operator-custom-crd-download-strategy); v1.17.1 does not implement it.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from fleethook.model.json import JSONObject, as_object

_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_IDENTIFIERS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SEMANTIC: Final = re.compile(
    rf"v?(?P<version>{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_IDENTIFIERS})?(?:\+{_IDENTIFIERS})?)", re.ASCII
)
_RELEASE: Final = re.compile(rf"v{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-(?:alpha|beta|rc)\.{_NUMBER})?", re.ASCII)
_RELEASE_URL: Final = "https://github.com/karmada-io/karmada/releases/download/{version}/crds.tar.gz"
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
    return _RELEASE_URL.format(version=release)


# Components with Karmada's version. The others (etcd, kube-apiserver, kube-controller-manager) have their own versions.
_COMPONENTS: Final = (
    "karmadaAggregatedAPIServer",
    "karmadaControllerManager",
    "karmadaScheduler",
    "karmadaWebhook",
    "karmadaDescheduler",
    "karmadaSearch",
    "karmadaMetricsAdapter",
)
_MAX_TAG: Final = 128
_FIELD: Final = "spec.components"


class Instance(NamedTuple):
    """The release of an instance's images."""

    release: str
    """``""`` if the images have no tags, or different ones."""
    warning: str
    """The reason if there is no release; ``""`` without tags."""


def read_instance_release(karmada: JSONObject) -> Instance:
    """Return the common release of an instance's components; fields may have any type."""
    tags = dict(_read_tags(karmada))
    distinct = sorted(set(tags.values()))
    if not distinct:
        return Instance("", "")
    if len(distinct) > 1:
        listed = ", ".join(f"{component} {tag}" for component, tag in tags.items())
        return Instance("", f"{_FIELD}: image tags disagree ({listed}), so they say nothing about the CRDs")
    (tag,) = distinct
    if not is_release(tag):
        return Instance("", f"{_FIELD}: the image tag {tag} is no release, so it says nothing about the CRDs")
    return Instance(tag, "")


def _read_tags(karmada: JSONObject) -> Iterator[tuple[str, str]]:
    components = as_object(as_object(karmada.get("spec")).get("components"))
    for name in _COMPONENTS:
        tag = as_object(components.get(name)).get("imageTag")
        if not isinstance(tag, str):
            continue
        # A digest after the tag pins the image; the tag still names the release.
        tag = tag.partition("@")[0].strip()
        if tag and len(tag) <= _MAX_TAG:
            yield name, tag
