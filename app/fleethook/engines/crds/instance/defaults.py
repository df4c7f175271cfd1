"""Defaults of ``spec.crdTarball`` (upstream: operator/pkg/apis/operator/v1alpha1/type.go, v1.17.1)."""

from fleethook.engines.crds.source import Policy
from fleethook.model.json import JSONObject, as_object


def build_default_patch(karmada: JSONObject) -> list[JSONObject]:
    """Return the RFC 6902 operations that add the defaults.

    As in upstream's schema, only the policy has a default, and only if there is a ``crdTarball``. The effective URL is
    not written, because a stored URL would not follow the version of the operator.
    """
    tarball = as_object(karmada.get("spec")).get("crdTarball")
    if not isinstance(tarball, dict) or tarball.get("crdDownloadPolicy") is not None:
        return []
    return [{"op": "add", "path": "/spec/crdTarball/crdDownloadPolicy", "value": Policy.IF_NOT_PRESENT.value}]
