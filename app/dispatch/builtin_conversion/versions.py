"""Selects the conversion of a built-in kind.

The kinds are those that kube-apiserver 1.36 serves in more than one version (``builtins.json``).
tests/conformance/test_builtin_versions.py compares the conversions with Kubernetes' own. `_rename` converts kinds whose
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
"""Converts an object to an ``apiVersion``; raises TypeError, ValueError."""


def _rename(document: JSONObject, api_version: str) -> JSONObject:
    return {**document, "apiVersion": api_version}


_EVENTS: Final = ("v1", "events.k8s.io/v1")
_AUTOSCALERS: Final = ("autoscaling/v2", "autoscaling/v1")
_NETWORKING: Final = ("networking.k8s.io/v1", "networking.k8s.io/v1beta1")
_DEVICES: Final = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1")
_KINDS: Final[Mapping[str, tuple[tuple[str, ...], Convert]]] = {
    "Event": (_EVENTS, convert_event),
    "HorizontalPodAutoscaler": (_AUTOSCALERS, convert_autoscaler),
    "ClusterTrustBundle": (("certificates.k8s.io/v1beta1", "certificates.k8s.io/v1alpha1"), _rename),
    "LeaseCandidate": (("coordination.k8s.io/v1beta1", "coordination.k8s.io/v1alpha2"), _rename),
    "IPAddress": (_NETWORKING, _rename),
    "ServiceCIDR": (_NETWORKING, _rename),
    "DeviceClass": (_DEVICES, _rename),
    "DeviceTaintRule": (("resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"), _rename),
    "ResourceClaim": (_DEVICES, convert_claim),
    "ResourceClaimTemplate": (_DEVICES, convert_template),
    "ResourceSlice": (_DEVICES, convert_slice),
    "VolumeAttributesClass": (("storage.k8s.io/v1", "storage.k8s.io/v1beta1"), _rename),
}


def convert_builtin(document: JSONObject, source: GroupVersionKind, to: GroupVersionKind) -> JSONObject | None:
    """Convert an object of a built-in kind to another version, as an apiserver does; None if that is not supported.

    Args:
        document: The object as an apiserver sends it: with defaults, and without members unknown to its version. It is
            not changed.
        source: The kind of the object.
        to: The target kind.

    Raises:
        ValueError: A member of the object has the wrong type for its version.
    """
    versions, convert = _KINDS.get(source.kind, ((), _rename))
    if source.kind != to.kind or source.api_version not in versions or to.api_version not in versions:
        return None
    try:
        return convert(document, to.api_version)
    except TypeError as error:
        raise ValueError(f"invalid {source.api_version}, Kind={source.kind}: {error}") from None
