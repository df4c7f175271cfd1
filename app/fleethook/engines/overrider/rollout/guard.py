"""Warns about edits of overriders that replace the pods of many workloads."""

from typing import Final

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.admission.dry_run import find_subject
from fleethook.engines.overrider.rollout.edit import Edit, predict_edit
from fleethook.engines.overrider.rules.missing_pools import known_pools
from fleethook.engines.overrider.subject.owner_index import effective_overrider, overriders_of, subject_of
from fleethook.model.admission import AdmissionRequest
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.kcp import cluster_of
from fleethook.model.openyurt import GROUP
from fleethook.work.pausing import Slice, Work

WARNING_MINIMUM: Final = 10
"""Edits that roll fewer workloads get no warning."""
# They delete the dependents of a deleted namespace or owner, and read no warnings.
_COLLECTORS: Final = frozenset(
    f"system:serviceaccount:kube-system:{name}" for name in ("namespace-controller", "generic-garbage-collector")
)


def warn_of_rollout(request: AdmissionRequest, *, store: StoreView, share: float) -> Work[str]:
    """Return the warning about the rollout that an edit of an overrider causes, ``""`` for none.

    Args:
        request: The creation, update or deletion of an overrider. Its objects have metadata.
        store: The other overriders, the subject and the NodePools.
        share: The share of the subject's workloads above which an edit is reported. 1 reports none.
    """
    before: JSON = request.old_object if request.operation != "CREATE" else None
    after: JSON = request.object if request.operation != "DELETE" else None
    changed: JSON = before if after is None else after
    if share >= 1 or (request.operation == "DELETE" and as_object(request.user).get("username") in _COLLECTORS):
        return ""
    yield Slice.READS_STORE
    namespace = request.namespace or str(changed["metadata"].get("namespace") or "")
    edit = read_edit(before, after, namespace=namespace, store=store)
    yield Slice.PURE
    if edit is None or edit.workloads < WARNING_MINIMUM:
        return ""
    effects = yield from predict_edit(edit)
    if effects.rolls < WARNING_MINIMUM or effects.share <= share:
        return ""
    metadata = edit.subject.document["metadata"]
    name = f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
    return f"{edit.subject.group_kind.kind} {name}: this edit {effects.text}"


def read_edit(before: JSONObject | None, after: JSONObject | None, *, namespace: str, store: StoreView) -> Edit | None:
    """Return an edit with the objects that it depends on, None if it affects no workload.

    Args:
        before: The overrider before the edit, None if it is created.
        after: The overrider after the edit, None if it is deleted.
        namespace: Its namespace.
        store: The other overriders, the subject and the NodePools.
    """
    document = after if after is not None else before
    named = None if document is None else subject_of(document)
    if document is None or named is None:
        return None
    cluster = cluster_of(document)
    subject = find_subject(document, cluster=cluster, namespace=namespace, store=store)
    if subject is None or subject.document["metadata"].get("deletionTimestamp"):
        return None
    kind, name = named
    bound = overriders_of(store, cluster=cluster, namespace=namespace, group_kind=GroupKind(GROUP, kind), name=name)
    own_names = {one["metadata"].get("name") for one in (before, after) if one is not None}
    others = [one for one in bound if one["metadata"]["name"] not in own_names]
    effective = [effective_overrider([*others, *([] if one is None else [one])]) for one in (before, after)]
    pools = known_pools(subject, store, overriders=effective)
    return Edit(subject, effective[0], effective[1], pools.names, pools.node_pools)
