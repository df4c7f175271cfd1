"""Finds manifests that misspell a kind or a version of OpenYurt, which no apiserver would serve."""

from typing import Final

from fleethook.engines.overrider.rules.finding import Finding
from fleethook.model.formats.text import nearest
from fleethook.model.gvk import parse_api_version
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import API_VERSION, GROUP, YURT_APP_DAEMON, YURT_APP_OVERRIDER, YURT_APP_SET

_VERSIONS: Final = {
    YURT_APP_OVERRIDER.kind: ("v1alpha1",),
    YURT_APP_DAEMON.kind: ("v1alpha1",),
    YURT_APP_SET.kind: ("v1alpha1", "v1beta1"),
    "NodePool": ("v1alpha1", "v1beta1", "v1beta2"),
}
# No other project has these kinds, so another group is a mistake. Other projects have a NodePool, too.
_OWN_KINDS: Final = (YURT_APP_OVERRIDER.kind, YURT_APP_SET.kind, YURT_APP_DAEMON.kind)


def check_kind(document: JSONObject) -> Finding | None:
    """Return a finding if a manifest misspells an apiVersion or kind that overriders work with."""
    group, version = parse_api_version(document["apiVersion"])
    kind = document["kind"]
    if group == GROUP and kind not in _VERSIONS:
        meant = nearest(kind, _VERSIONS)
        return (
            Finding("unknown-kind", "kind", f"{GROUP} has no kind {kind!r}; did you mean {meant}?") if meant else None
        )
    if group == GROUP and kind in _VERSIONS and version not in _VERSIONS[kind]:
        known = " or ".join(f"{GROUP}/{one}" for one in _VERSIONS[kind])
        message = f"{kind} has no version {version!r}; write {known}"
        return Finding("unknown-kind", "apiVersion", message)
    if group != GROUP and kind in _OWN_KINDS:
        message = f"{kind} is in {API_VERSION}, not in {document['apiVersion']!r}"
        return Finding("unknown-kind", "apiVersion", message)
    return None
