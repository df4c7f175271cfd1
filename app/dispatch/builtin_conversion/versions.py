"""Which built-in kinds can be had in which versions, and how.

The kinds are those that kube-apiserver 1.36 serves in more than one version (``builtins.json``); the tables are held
to its own conversions by tests/conformance/test_builtin_versions.py. Of kinds that stand here with `_renamed` all
versions have the same members.
"""

from collections.abc import Callable, Mapping
from typing import Final

from app.dispatch.builtin_conversion.autoscalers import convert_autoscaler
from app.dispatch.builtin_conversion.devices import convert_claim, convert_slice, convert_template
from app.dispatch.builtin_conversion.events import convert_event
from app.model.gvk import GroupVersionKind
from app.model.json import JSONObject

Convert = Callable[[JSONObject, str], JSONObject]
"""From an object and an ``apiVersion`` to the object in that version; raises TypeError, ValueError."""


def _renamed(document: JSONObject, api_version: str) -> JSONObject:
    return {**document, "apiVersion": api_version}


_EVENTS: Final = ("v1", "events.k8s.io/v1")
_AUTOSCALERS: Final = ("autoscaling/v2", "autoscaling/v1")
_NETWORKING: Final = ("networking.k8s.io/v1", "networking.k8s.io/v1beta1")
_DEVICES: Final = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1")
_KINDS: Final[Mapping[str, tuple[tuple[str, ...], Convert]]] = {
    "Event": (_EVENTS, convert_event),
    "HorizontalPodAutoscaler": (_AUTOSCALERS, convert_autoscaler),
    "ClusterTrustBundle": (("certificates.k8s.io/v1beta1", "certificates.k8s.io/v1alpha1"), _renamed),
    "LeaseCandidate": (("coordination.k8s.io/v1beta1", "coordination.k8s.io/v1alpha2"), _renamed),
    "IPAddress": (_NETWORKING, _renamed),
    "ServiceCIDR": (_NETWORKING, _renamed),
    "DeviceClass": (_DEVICES, _renamed),
    "DeviceTaintRule": (("resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"), _renamed),
    "ResourceClaim": (_DEVICES, convert_claim),
    "ResourceClaimTemplate": (_DEVICES, convert_template),
    "ResourceSlice": (_DEVICES, convert_slice),
    "VolumeAttributesClass": (("storage.k8s.io/v1", "storage.k8s.io/v1beta1"), _renamed),
}


def convert_builtin(document: JSONObject, source: GroupVersionKind, to: GroupVersionKind) -> JSONObject | None:
    """Return an object of a built-in kind in another version, as an apiserver makes it; None if that is not known.

    Args:
        document: The object as an apiserver sends it: with its defaults, and no members that its version has not. It
            is left alone.
        source: Its version.
        to: The version that is wanted.

    Raises:
        ValueError: The object does not have the form of its version.
    """
    versions, convert = _KINDS.get(source.kind, ((), _renamed))
    if source.kind != to.kind or source.api_version not in versions or to.api_version not in versions:
        return None
    try:
        return convert(document, to.api_version)
    except TypeError as error:
        raise ValueError(f"it does not have the form of {source.api_version}, Kind={source.kind}: {error}") from None
