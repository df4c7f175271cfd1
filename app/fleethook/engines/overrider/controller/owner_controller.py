"""Finds OpenYurt's controllers in a cluster, and their progress with a subject."""

from typing import Final

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.subject.subject_members import has_no_daemon_controller
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject, as_object, list_objects
from fleethook.model.openyurt import API_VERSION, YURT_APP_DAEMON

_CONVERTED: Final = "templateType"

DAEMONS_WITHOUT_CONTROLLER: Final = (
    "OpenYurt 1.7 and later, which serve NodePools as v1beta2, have no controller for YurtAppDaemons: use a YurtAppSet "
    "v1beta1 with nodepoolSelector"
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


def is_behind(subject: JSONObject, *, lacks_pools: bool) -> bool:
    """Return whether the subject's controller reports that it has not written all workloads.

    OpenYurt 1.5 and later report a generation as observed when all workloads are written (v1.7.0, yurtappset:
    Reconcile). OpenYurt 1.4 does so too if a write was refused.

    Args:
        subject: The subject.
        lacks_pools: Whether a node pool has no workload.
    """
    observed = as_object(subject.get("status")).get("observedGeneration")
    generation = subject["metadata"].get("generation")
    if isinstance(observed, int) and isinstance(generation, int) and observed < generation:
        return True
    return reports_refusal(subject, lacks_pools=lacks_pools)


def reports_refusal(subject: JSONObject, *, lacks_pools: bool) -> bool:
    """Return whether the controller of OpenYurt 1.4 reports a refused write, which it does not retry.

    Source: v1.4.4, pkg/yurtmanager/controller/yurtappset: managePools.

    Args:
        subject: The subject.
        lacks_pools: Whether a node pool has no workload. The condition of a refused creation may outlive the pool.
    """
    if subject.get("apiVersion") != API_VERSION:
        return False
    conditions = list_objects(as_object(subject.get("status")).get("conditions"))
    failed = {one.get("type") for one in conditions if one.get("status") == "False"}
    return "PoolUpdated" in failed or (lacks_pools and "PoolProvisioned" in failed)
