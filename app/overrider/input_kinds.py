"""Which kinds the workloads of a subject are rendered from."""

from app.model.gvk import GroupKind
from app.model.json import JSONObject
from app.model.openyurt import API_VERSION, NODE_POOL, YURT_APP_DAEMON, YURT_APP_OVERRIDER


def input_kinds(group_kind: GroupKind, subject: JSONObject | None) -> frozenset[GroupKind]:
    """Return the kinds that have to be read before workloads of a subject are written.

    NodePools count where they decide which pools a subject has: for a YurtAppDaemon, whose workloads also get
    tolerations from the taints of a NodePool, and for a YurtAppSet of v1beta1 (OpenYurt v1.5, yurtappset controller).

    Args:
        group_kind: The subject's kind.
        subject: The subject as stored, None if the store does not hold it.
    """
    selects = group_kind == YURT_APP_DAEMON or (subject is not None and subject["apiVersion"] != API_VERSION)
    return frozenset({YURT_APP_OVERRIDER, group_kind, *([NODE_POOL] if selects else [])})
