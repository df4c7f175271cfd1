"""Detects whether a controller of OpenYurt creates the workloads of a kind of subject in a cluster."""

from typing import Final

from fleethook.cluster.store import StoreView
from fleethook.model.gvk import DEFINITION, GroupKind
from fleethook.model.json import JSONObject, as_object
from fleethook.model.openyurt import GROUP, NODE_POOL, YURT_APP_DAEMON

_NODE_POOLS: Final = f"nodepools.{GROUP}"
# OpenYurt 1.7 added this version of NodePools and removed the controller of YurtAppDaemons (CHANGELOG.md, pull requests
# 2266 and 2309). It still installs the CustomResourceDefinition of YurtAppDaemons.
_VERSION_SINCE_1_7: Final = "v1beta2"
_CONVERTED: Final = "templateType"


def has_no_daemon_controller(store: StoreView, cluster: str) -> bool:
    """Return whether a cluster's OpenYurt is too new to have a controller for YurtAppDaemons."""
    definition = store.get(cluster, DEFINITION, "", _NODE_POOLS)
    if definition is not None:
        versions = map(as_object, as_object(definition.get("spec")).get("versions") or ())
        return any(version.get("name") == _VERSION_SINCE_1_7 and version.get("served") for version in versions)
    # The server reads all NodePools in one version, the newest that the apiserver serves.
    node_pool = next(store.each(cluster, NODE_POOL), None)
    return node_pool is not None and node_pool["apiVersion"] == f"{GROUP}/{_VERSION_SINCE_1_7}"


DAEMONS_WITHOUT_CONTROLLER: Final = (
    "OpenYurt 1.7 and later, which serve NodePools as v1beta2, have no controller for YurtAppDaemons: use a YurtAppSet "
    "v1beta1 with nodepoolSelector, which 'fleethook convert' makes of a YurtAppDaemon"
)


def describe_lack_of_controller(group_kind: GroupKind, *, cluster: str, store: StoreView) -> str:
    """Return the reason why no controller creates the workloads of a kind of subject, ``""`` if one seems to.

    OpenYurt's controllers write a status into each subject that they reconcile.

    Args:
        group_kind: YurtAppSet or YurtAppDaemon.
        cluster: The logical cluster.
        store: The subjects, the node pools and, if the server watches them, the CustomResourceDefinitions.
    """
    if group_kind == YURT_APP_DAEMON and has_no_daemon_controller(store, cluster):
        return DAEMONS_WITHOUT_CONTROLLER
    # The first subject with a status ends the search, so it is long only if no controller reconciles any.
    if any(was_reconciled(subject) for subject in store.each(cluster, group_kind)):
        return ""
    return (
        f"no controller of OpenYurt reconciles {group_kind.kind}s in this cluster, as none of them has a status: check "
        "that yurt-manager runs, and which controllers its argument --controllers disables"
    )


def was_reconciled(subject: JSONObject) -> bool:
    """Return whether a controller has ever written a subject's status.

    OpenYurt's conversion between v1alpha1 and v1beta1 gives every object a status: zeros, empty strings and, in
    v1alpha1, the type of the template (v1.7.0, pkg/apis/apps/v1alpha1/yurtappset_conversion.go).
    """
    status = as_object(subject.get("status"))
    return any(value for name, value in status.items() if name != _CONVERTED)
