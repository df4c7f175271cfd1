"""Reads the release of an instance from the images of its components.

Upstream's proposal has this as a goal (docs/proposals/karmada-operator/operator-custom-crd-download-strategy); upstream
v1.17.1 does not implement it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from fleethook.engines.crds.instance.version import is_release
from fleethook.model.json import JSONObject, as_object

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
