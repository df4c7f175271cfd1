"""Predicts the effect of edited overriders, subjects and NodePools on running workloads, and sums it up.

The prediction for a workload is the object that OpenYurt's controller writes, if it writes one, rendered by the
function that admission and fleethook's controller use. Changes that are due without the edit, too, do not count.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.store import ObjectKey, StoreView, key_of
from fleethook.engines.overrider.admission.workload_admission import keep_replicas
from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_cache import PlanCache, same_input
from fleethook.engines.overrider.render.stored_workload_comparison import MemberDifference, find_changes, render_stored
from fleethook.engines.overrider.render.undo_and_annotations import read_last_render
from fleethook.engines.overrider.render.workload_render_and_name_conflicts import RenderTarget, render_with
from fleethook.engines.overrider.rollout.workload_effect_and_openyurt_writes import (
    EFFECTS,
    Effect,
    EffectName,
    OwnerEdit,
    compare,
    is_written,
    owns_by_label,
    replicas_of,
    write,
)
from fleethook.engines.overrider.subject.bound_overriders import find_binding, overriders_of
from fleethook.engines.overrider.subject.subject_and_pools import (
    depends_on_node_pools,
    has_no_daemon_controller,
    is_v1beta1,
    pools_of_subject,
)
from fleethook.engines.overrider.subject.workload_owner import Owner, find_owner
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.engines.overrider.template.template_builder import workload_kinds
from fleethook.model.formats.text import counted
from fleethook.model.json import JSONObject, as_object, as_text
from fleethook.model.openyurt import NODE_POOL, POOL_NAME_LABEL, SUBJECT_KINDS, YURT_APP_DAEMON, YURT_APP_OVERRIDER
from fleethook.patch import apply


class PredictedEffect(NamedTuple):
    """The predicted effect on one workload."""

    subject: ObjectKey
    pool: str
    kind: str
    """Deployment or StatefulSet."""
    name: str
    """The name of the workload, ``""`` for one that will be created."""
    effect: Effect
    error: str = ""
    """The reason why the workload cannot be rendered or compared, ``""`` if it can."""


class World:
    """The objects at one moment, with plans compiled from them."""

    def __init__(self, store: StoreView) -> None:
        """Prepare to render with the objects of a store."""
        self.store: Final = store
        self.plans: Final = PlanCache()
        # A cache keeps one overrider for each subject, so the plans without overrider need a cache of their own.
        self._bare: Final = PlanCache()

    def bare(self, subject: ObjectKey, document: JSONObject, *, kind: str, pool: str) -> JSONObject:
        """Return the workload of a pool without overrides; raises SubjectError."""
        plan = self._bare.plan(
            subject.group_kind, document, None, kind=kind, pool=pool, cluster=subject.cluster, store=self.store
        )
        found: JSONObject = plan.full.create.bare
        return found

    def create(self, subject: ObjectKey, document: JSONObject, *, kind: str, pool: str) -> JSONObject:
        """Return the workload that a pool gets if it has none; raises SubjectError, RenderError."""
        overriders = self.overriders(subject)
        plan = self.plans.plan(
            subject.group_kind,
            document,
            overriders[0] if overriders else None,
            kind=kind,
            pool=pool,
            cluster=subject.cluster,
            store=self.store,
        ).full
        return render_with(plan, plan.create.bare, last_render=None, creating=True)

    def overriders(self, subject: ObjectKey) -> tuple[JSONObject, ...]:
        """Return the overriders of a subject, the effective one first."""
        return overriders_of(self.store, subject)

    def pools(self, subject: ObjectKey, document: JSONObject) -> list[str]:
        """Return the node pools of a subject."""
        return pools_of_subject(subject.group_kind, document, cluster=subject.cluster, store=self.store)

    def taints(self, cluster: str, pool: str) -> JSONObject | list[JSONObject] | None:
        """Return the taints of a NodePool."""
        node_pool = self.store.get(cluster, NODE_POOL, "", pool)
        taints: JSONObject | list[JSONObject] | None = as_object(as_object(node_pool or {}).get("spec")).get("taints")
        return taints


def find_subjects(before: StoreView, after: StoreView, changed: Iterable[ObjectKey]) -> list[ObjectKey]:
    """Return the subjects whose workloads may change with an edit, in order.

    Args:
        before: Overriders, subjects and NodePools before the edit.
        after: The same objects after the edit.
        changed: Keys of the added, changed and removed objects.
    """
    keys: set[ObjectKey] = set()
    for key in changed:
        if key.group_kind in SUBJECT_KINDS:
            keys.add(key)
        elif key.group_kind == YURT_APP_OVERRIDER:
            stored = [store.get(*key) for store in (before, after)]
            bound = [find_binding(key.cluster, one) for one in stored if one is not None]
            keys.update(one for one in bound if one is not None and one.group_kind in SUBJECT_KINDS)
        elif key.group_kind == NODE_POOL:
            keys.update(_find_dependents(key.cluster, after), _find_dependents(key.cluster, before))
    return sorted(keys)


def _find_dependents(cluster: str, store: StoreView) -> Iterator[ObjectKey]:
    for group_kind in SUBJECT_KINDS:
        for subject in store.each(cluster, group_kind):
            key = key_of(subject)._replace(cluster=cluster)
            if depends_on_node_pools(group_kind, subject, overriders_of(store, key)[:1]):
                yield key


def predict(
    before: StoreView, after: StoreView, workloads: Iterable[JSONObject], changed: Iterable[ObjectKey]
) -> list[PredictedEffect]:
    """Return the effects of an edit, by subject, node pool and workload.

    Args:
        before: Overriders, subjects and NodePools before the edit.
        after: The same objects after the edit.
        workloads: The complete workloads as kube-apiserver stores them.
        changed: Keys of the added, changed and removed objects.
    """
    subjects = find_subjects(before, after, changed)
    owned: dict[ObjectKey, list[JSONObject]] = {subject: [] for subject in subjects}
    for workload in workloads:
        owner = find_owner(workload["metadata"])
        if owner is not None and not workload["metadata"].get("deletionTimestamp"):
            key = key_of(workload)
            subject = ObjectKey(key.cluster, owner.group_kind, key.namespace, owner.name)
            if subject in owned:
                owned[subject].append(workload)
    worlds = World(before), World(after)
    outcomes = (effect for subject in subjects for effect in predict_subject(*worlds, subject, owned[subject]))
    return sorted(outcomes, key=lambda one: (one.subject, one.pool, one.kind, one.name))


def predict_subject(
    before: World, after: World, subject: ObjectKey, workloads: Sequence[JSONObject]
) -> Iterator[PredictedEffect]:
    """Yield the effects of an edit on the workloads of one subject, which are ``workloads``."""
    old, new = before.store.get(*subject), after.store.get(*subject)
    if new is None:
        for workload in workloads if old is not None else ():
            yield _make_outcome(subject, workload, _delete(workload, "its subject is deleted"))
        return
    controlled = not (subject.group_kind == YURT_APP_DAEMON and has_no_daemon_controller(after.store, subject.cluster))
    edit = OwnerEdit.of(subject.group_kind, old or new, new)
    current = after.pools(subject, new)
    for workload in workloads:
        yield _predict_workload(before, after, subject, workload, edit=edit, pools=current, controlled=controlled)
    if controlled:
        former = frozenset(before.pools(subject, old)) if old is not None else frozenset()
        kinds_before = workload_kinds(old) if old is not None else []
        yield from _create(after, subject, new, workloads, former=former, kinds_before=kinds_before, pools=current)


def _predict_workload(
    before: World,
    after: World,
    subject: ObjectKey,
    workload: JSONObject,
    *,
    edit: OwnerEdit,
    pools: Collection[str],
    controlled: bool,
) -> PredictedEffect:
    pool, kind = _pool_of(workload), workload["kind"]
    owner = find_owner(workload["metadata"])
    assert owner is not None
    counts = controlled and owns_by_label(edit, workload) and owner.api_version == edit.after["apiVersion"]
    if edit.before["apiVersion"] != edit.after["apiVersion"]:
        text = (
            f"the edit has apiVersion {edit.after['apiVersion']}, and the subject is read as "
            f"{edit.before['apiVersion']}: write the edit in that version"
        )
        return _make_outcome(subject, workload, Effect("error"), error=text)
    if counts and pool not in pools:
        return _make_outcome(subject, workload, _delete(workload, f"its subject has no node pool {pool} any more"))
    if counts and kind not in workload_kinds(edit.after) and not is_v1beta1(edit.after):
        return _make_outcome(subject, workload, _delete(workload, f"its subject has no template of a {kind} any more"))
    # Without an edit, the controller writes the same in both worlds, if it writes at all.
    owner_edit = edit if counts and _concerns_owner(before, after, subject, edit, pool) else None
    try:
        written = _become(after, subject, workload, owner, edit=owner_edit)
    except (RenderError, SubjectError) as error:
        return _make_outcome(subject, workload, Effect("error"), error=str(error))
    pending = _find_pending(before, subject, workload, owner, edit=owner_edit) if written != workload else ()
    return _make_outcome(subject, workload, compare(kind, workload, written, pending=pending))


def _concerns_owner(before: World, after: World, subject: ObjectKey, edit: OwnerEdit, pool: str) -> bool:
    """Return whether an edit changes the subject, or the NodePool of a workload that its controller reads."""
    if not depends_on_node_pools(subject.group_kind, edit.after):
        return not same_input(edit.before, edit.after)
    node_pools = (world.store.get(subject.cluster, NODE_POOL, "", pool) for world in (before, after))
    return not (same_input(edit.before, edit.after) and same_input(*node_pools))


def _find_pending(
    before: World, subject: ObjectKey, workload: JSONObject, owner: Owner, *, edit: OwnerEdit | None
) -> Sequence[MemberDifference]:
    """Return the changes that are due without the edit: drift, and values that kube-apiserver does not store."""
    unedited = None if edit is None else edit.undone
    try:
        return find_changes(workload, _become(before, subject, workload, owner, edit=unedited))
    except (RenderError, SubjectError):
        return ()


def _become(
    world: World, subject: ObjectKey, workload: JSONObject, owner: Owner, *, edit: OwnerEdit | None
) -> JSONObject:
    """Return a workload after the writes of both controllers; raises SubjectError, RenderError.

    Args:
        world: The objects that the controllers see.
        subject: The subject of the workload.
        workload: The stored workload.
        owner: Its owner reference.
        edit: The edit of the subject, None if no controller of OpenYurt writes the workload.
    """
    sent = workload
    pool, kind = _pool_of(workload), workload["kind"]
    if edit is not None and not (subject.group_kind == YURT_APP_DAEMON and kind == "StatefulSet"):
        bare = world.bare(subject, edit.after, kind=kind, pool=pool)
        if is_written(edit, workload, pool, bare=bare, taints=world.taints(subject.cluster, pool)):
            sent = write(edit, workload, kind=kind, bare=bare)
    target = RenderTarget(kind, subject.namespace, owner, creating=False)
    rendering = render_stored(
        sent, target, last_render=read_last_render(workload), store=world.store, plans=world.plans
    )
    rendered: JSONObject = apply(sent, keep_replicas(rendering, sent, workload).operations)
    return rendered


def _create(
    after: World,
    subject: ObjectKey,
    document: JSONObject,
    workloads: Sequence[JSONObject],
    *,
    former: Collection[str],
    kinds_before: Collection[str],
    pools: Sequence[str],
) -> Iterator[PredictedEffect]:
    """Yield the workloads that OpenYurt's controller creates in added node pools, or with an added template."""
    present = {(_pool_of(workload), workload["kind"]) for workload in workloads}
    for kind in workload_kinds(document):
        if subject.group_kind == YURT_APP_DAEMON and kind == "StatefulSet":
            continue
        for pool in pools:
            if (pool, kind) in present or (pool in former and kind in kinds_before):
                continue
            try:
                created = after.create(subject, document, kind=kind, pool=pool)
            except (RenderError, SubjectError) as error:
                yield PredictedEffect(subject, pool, kind, "", Effect("error"), str(error))
                continue
            replicas = replicas_of(created)
            yield PredictedEffect(subject, pool, kind, "", Effect("created", replicas, (0, replicas)))


def _delete(workload: JSONObject, reason: str) -> Effect:
    replicas = replicas_of(workload)
    return Effect("deleted", replicas, (replicas, 0), notes=(reason,))


def _make_outcome(subject: ObjectKey, workload: JSONObject, effect: Effect, *, error: str = "") -> PredictedEffect:
    return PredictedEffect(subject, _pool_of(workload), workload["kind"], workload["metadata"]["name"], effect, error)


def _pool_of(workload: JSONObject) -> str:
    return as_text(as_object(workload["metadata"].get("labels")).get(POOL_NAME_LABEL))


_VERBS: Final[Mapping[EffectName, str]] = {
    "rolls": "rolls",
    "scales": "scales",
    "created": "creates",
    "deleted": "deletes",
    "spec": "changes other fields of",
    "metadata": "changes metadata of",
    "error": "cannot render",
}
_QUIET: Final = frozenset({"unchanged"})


class Totals(NamedTuple):
    """Numbers of workloads and pods by effect."""

    workloads: int
    """All workloads of the affected subjects, without those that will be created."""
    effects: Mapping[EffectName, int]
    pods: Mapping[EffectName, int]

    @property
    def changes(self) -> bool:
        """Whether any workload changes, or cannot be rendered."""
        return any(number and name not in _QUIET for name, number in self.effects.items())

    @property
    def headline(self) -> str:
        """The numbers on one line, such as ``rolls 48 of 200 workloads, 312 pods``."""
        parts = [
            self._describe(name, first=not position)
            for position, name in enumerate(name for name in EFFECTS if name not in _QUIET and self.effects.get(name))
        ]
        return "; ".join(parts) or f"changes none of {counted(self.workloads, 'workload')}"

    def _describe(self, name: EffectName, *, first: bool) -> str:
        number = self.effects[name]
        total = f" of {counted(self.workloads, 'workload')}" if first and name != "created" else ""
        noun = "" if total else f" {'workload' if number == 1 else 'workloads'}"
        pods = (
            f", {counted(self.pods.get(name, 0), 'pod')}" if name in ("rolls", "scales", "created", "deleted") else ""
        )
        return f"{_VERBS[name]} {number:,}{total}{noun}{pods}"


def sum_effects(effects: Iterable[Effect]) -> Totals:
    """Return the totals of effects."""
    workloads, numbers, pods = 0, Counter[EffectName](), Counter[EffectName]()
    for effect in effects:
        workloads += effect.name != "created"
        numbers[effect.name] += 1
        pods[effect.name] += effect.pods
    return Totals(workloads, numbers, pods)


def sum_outcomes(outcomes: Sequence[PredictedEffect]) -> Totals:
    """Return the totals of outcomes."""
    return sum_effects(outcome.effect for outcome in outcomes)
