"""Which release an instance is of, by the images of its components (research 1.4: the proposal's own, unmet goal)."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from app.crds.instance.version import is_release
from app.model.json import JSONObject, as_object

# Those that are built with Karmada. The others (etcd, kube-apiserver, kube-controller-manager) have versions of theirs.
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
    """What the images say."""

    release: str
    """``""`` if they name none, or not one."""
    warning: str
    """Why not, ``""`` if there is nothing to say."""


def read_instance_release(karmada: JSONObject) -> Instance:
    """Return which release the components of an instance have in common; members may have any type."""
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
        # A digest behind a tag pins the image; the tag still says what it is.
        tag = tag.partition("@")[0].strip()
        if tag and len(tag) <= _MAX_TAG:
            yield name, tag
