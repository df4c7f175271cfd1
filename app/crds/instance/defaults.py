"""What an instance of Karmada gets that does not say it (research 1.2)."""

from app.crds.source import Policy
from app.model.json import JSONObject, as_object


def build_default_patch(karmada: JSONObject) -> list[JSONObject]:
    """Return the RFC 6902 operations that put the defaults in.

    It is the policy alone, as the schema upstream has it, and only where there is a ``crdTarball``. The effective URL
    is not written: it follows the version of the operator, and what is written once would not.
    """
    tarball = as_object(karmada.get("spec")).get("crdTarball")
    if not isinstance(tarball, dict) or tarball.get("crdDownloadPolicy") is not None:
        return []
    return [{"op": "add", "path": "/spec/crdTarball/crdDownloadPolicy", "value": Policy.IF_NOT_PRESENT.value}]
