"""The guard of fleets: warns about edits of overriders that roll many workloads, and refuses them if so configured.

The annotation ``fleethook.io/allow-rollout`` allows one edit. Its value names the number of workloads and a digest of
the edit, so an annotation that stays on the overrider allows nothing else.
"""

import re
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.admission.dry_run import Subject, find_subject
from fleethook.engines.overrider.rollout.edit import Edit, EditEffects, predict_edit
from fleethook.engines.overrider.rules.missing_pools import known_pools
from fleethook.engines.overrider.subject.owner_index import effective_overrider, overriders_of, subject_of
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.kcp import cluster_of
from fleethook.model.openyurt import GROUP
from fleethook.work.pausing import Slice, Work

ALLOW_ANNOTATION: Final = "fleethook.io/allow-rollout"
_ALLOWANCE: Final = re.compile(r"([0-9]{1,9})-([0-9a-f]{16})", re.ASCII)
# They delete the dependents of a deleted namespace or owner. A refusal would only delay that.
_COLLECTORS: Final = frozenset(
    f"system:serviceaccount:kube-system:{name}" for name in ("namespace-controller", "generic-garbage-collector")
)


class GuardLimits(NamedTuple):
    """The shares of a subject's workloads above which an edit is reported or refused. 1 switches a limit off."""

    warn_share: float = 1.0
    refuse_share: float = 1.0
    minimum: int = 1
    """Edits that roll fewer workloads are neither reported nor refused."""

    @property
    def is_off(self) -> bool:
        """Whether no edit can exceed a limit."""
        return self.warn_share >= 1 and self.refuse_share >= 1


OFF: Final = GuardLimits()


class Allowance(NamedTuple):
    """The annotation value that allows one edit."""

    workloads: int
    digest: str

    def __str__(self) -> str:
        return f"{self.workloads}-{self.digest}"


def make_allowance(before: JSONObject | None, after: JSONObject | None, workloads: int) -> Allowance:
    """Return the allowance of an edit.

    Args:
        before: The overrider before the edit, None if it is created.
        after: The overrider after the edit, None if it is deleted.
        workloads: The number of workloads that roll.
    """
    text = msgspec.json.encode([_get_content(before), _get_content(after)], order="deterministic")
    return Allowance(workloads, sha256(text).hexdigest()[:16])


def _get_content(overrider: JSONObject | None) -> JSON:
    """Return the members that an edit is about, without those that admission fills in."""
    if overrider is None:
        return None
    return [overrider["metadata"].get("namespace"), subject_of(overrider), overrider.get("entries")]


def is_allowed(overrider: JSONObject, needed: Allowance) -> bool:
    """Return whether the annotation of an overrider allows an edit, for at least as many workloads."""
    written = as_object(overrider["metadata"].get("annotations")).get(ALLOW_ANNOTATION)
    found = _ALLOWANCE.fullmatch(written) if isinstance(written, str) else None
    return found is not None and found[2] == needed.digest and int(found[1]) >= needed.workloads


def guard_edit(request: AdmissionRequest, *, store: StoreView, limits: GuardLimits, stale: str = "") -> Work[Response]:
    """Return the verdict on the rollout that an edit of an overrider causes: admitted, with a warning, or refused.

    Args:
        request: The creation, update or deletion of an overrider. Its objects have metadata.
        store: The other overriders, the subject and the NodePools.
        limits: The limits.
        stale: The reason why the store may be out of date, ``""`` if it is not. Then no edit is refused.
    """
    before: JSON = request.old_object if request.operation != "CREATE" else None
    after: JSON = request.object if request.operation != "DELETE" else None
    changed: JSON = before if after is None else after
    if limits.is_off or (request.operation == "DELETE" and as_object(request.user).get("username") in _COLLECTORS):
        return admission.allowed()
    yield Slice.READS_STORE
    namespace = request.namespace or str(changed["metadata"].get("namespace") or "")
    edit = read_edit(before, after, namespace=namespace, store=store)
    yield Slice.PURE
    if edit is None or edit.workloads < limits.minimum:
        return admission.allowed()
    effects = yield from predict_edit(edit)
    needed = make_allowance(before, after, effects.rolls)
    return _judge(effects, edit, needed=needed, allowed=is_allowed(changed, needed), limits=limits, stale=stale)


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


def _judge(
    effects: EditEffects, edit: Edit, *, needed: Allowance, allowed: bool, limits: GuardLimits, stale: str
) -> Response:
    if effects.rolls < max(1, limits.minimum):
        return admission.allowed()
    text = f"{_describe(edit.subject)}: this edit {effects.text}"
    if effects.share > limits.refuse_share and not allowed:
        if not stale:
            return admission.denied(
                f"{text}, more than {limits.refuse_share:.0%} of its workloads: to allow this edit and no other, set "
                f"the annotation {ALLOW_ANNOTATION}: {needed}"
            )
        text = f"{text}, and is not refused, because the objects may be out of date: {stale}"
    elif effects.share <= limits.warn_share:
        return admission.allowed()
    return admission.allowed(warnings=[text])


def _describe(subject: Subject) -> str:
    metadata = subject.document["metadata"]
    return f"{subject.group_kind.kind} {metadata.get('namespace') or 'default'}/{metadata['name']}"
