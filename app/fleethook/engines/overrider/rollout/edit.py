"""Predicts the effect of an overrider's edit at admission, from the rendering of each node pool before and after it.

A replica that answers reviews stores no workloads (docs/decisions/0005-controller.md), so the prediction takes each
workload to be as its overrider rendered it. `fleethook.engines.overrider.rollout.prediction` uses the stored workloads.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.admission.dry_run import Subject
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.entries.patch_paths import MAX_TEMPLATE_VALUES
from fleethook.engines.overrider.plan.shared_plan import PoolPlan, SharedPlan
from fleethook.engines.overrider.plan.subject_plans import SubjectPlans
from fleethook.engines.overrider.render.member_differences import ABSENT, Difference
from fleethook.engines.overrider.rollout.effect import Effect, classify, find_changes, reduce_changes
from fleethook.engines.overrider.rollout.prediction import Totals, sum_effects
from fleethook.engines.overrider.subject.subject_members import templates_of, workload_kinds
from fleethook.engines.overrider.template.node_affinity import CREATE_ONLY, SubjectError
from fleethook.model.json import JSON, JSONObject, count_values
from fleethook.patch import parse_pointer
from fleethook.work.pausing import Pauses, Work
from fleethook.workload_schema.value_marks import (
    MAX_NUMBERS,
    POOL_MARK,
    REPLICAS_MARK,
    EntryValues,
    PoolValues,
    has_mark,
)

# Units of work between two pauses. Comparing two known plans takes one, some 0.1 ms; compiling one takes `_PLAN_UNITS`.
_SLICE: Final = 40
_PLAN_UNITS: Final = 30
# A changed value with marks takes 5 µs in each node pool. Hashing a plan for a node pool takes 0.1 ms for 32 KB.
# Finding the changes takes 1 µs for a value of the template.
_CHANGES_PER_UNIT: Final = 20
_BYTES_PER_UNIT: Final = 32_768
_VALUES_PER_UNIT: Final = 100
_MAX_CHANGES_AT_ONCE: Final = 2_000
# Limits the time if every node pool needs plans of its own: 500 plans of 400 values take half a second.
_MAX_RENDERED: Final = 200_000
_MAX_PLAN_BYTES: Final = 8 << 20
_MAX_NAMED: Final = 5
_ROLLED: Final = Effect("rolls")
# Marks that no plan has, in place of the marks of entries.
_OTHER_MARKS: Final = PoolValues(
    POOL_MARK,
    REPLICAS_MARK,
    EntryValues(
        entries=tuple(range(MAX_NUMBERS)),
        texts=tuple(f"\ue002{number}" for number in range(MAX_NUMBERS)),
        numbers=tuple(-number - 1 for number in range(MAX_NUMBERS)),
    ),
)
# A changed hash always changes an annotation.
_HASH_ONLY: Final = (Difference("/metadata/annotations", ("metadata", "annotations"), "", ""),)
_FIXED: Final = frozenset({("spec", name) for name in CREATE_ONLY - {"replicas"}})


class Edit(NamedTuple):
    """An edit of the effective overrider of a subject, with the objects that the rendering depends on."""

    subject: Subject
    before: JSONObject | None
    after: JSONObject | None
    pools: Sequence[str]
    node_pools: Mapping[str, JSONObject | None]

    @property
    def workloads(self) -> int:
        """The number of workloads of the subject."""
        return len(self.pools) * len(workload_kinds(self.subject.document))


class EditEffects(NamedTuple):
    """The predicted effect of an edit."""

    totals: Totals
    rolling: tuple[str, ...]
    """The node pools whose workloads roll."""
    uncompared: int
    """The number of workloads that count as rolling because comparing them exceeds the limit."""

    @property
    def rolls(self) -> int:
        """The number of workloads that roll."""
        return self.totals.effects.get("rolls", 0)

    @property
    def share(self) -> float:
        """The share of the subject's workloads that roll."""
        return self.rolls / self.totals.workloads if self.totals.workloads else 0.0

    @property
    def text(self) -> str:
        """The numbers, with some of the node pools."""
        shown = ", ".join(self.rolling[:_MAX_NAMED])
        more = f" and {len(self.rolling) - _MAX_NAMED} more" if len(self.rolling) > _MAX_NAMED else ""
        bound = f", of which {self.uncompared} were not compared and may not roll" if self.uncompared else ""
        return f"{self.totals.headline} (node pool{'' if len(self.rolling) == 1 else 's'} {shown}{more}{bound})"


def predict_edit(edit: Edit) -> Work[EditEffects]:
    """Return the effect of an edit on the workloads of all node pools. Reads nothing that can change during a pause."""
    comparison = yield from _prepare(edit)
    effects: list[Effect] = []
    rolling: list[str] = []
    uncompared, kinds, pauses = 0, workload_kinds(edit.subject.document), Pauses(_SLICE)
    for pool in edit.pools:
        for kind in kinds:
            if comparison.is_exhausted:
                uncompared += 1
                effect: Effect | None = _ROLLED
            else:
                effect, units = yield from comparison.compare(kind, pool, edit.node_pools.get(pool))
                if pauses.due(units):
                    yield
            if effect is not None:
                effects.append(effect)
                rolling += [pool] if effect.name == "rolls" else []
    return EditEffects(sum_effects(effects), tuple(dict.fromkeys(rolling)), uncompared)


def _prepare(edit: Edit) -> "Work[_Comparison]":
    """Return the comparison of an edit. Indexing an overrider with an entry for each of 5,000 pools takes a slice."""
    group_kind, document, _ = edit.subject
    yield
    before = SubjectPlans(group_kind, document, edit.before)
    yield
    after = SubjectPlans(group_kind, document, edit.after)
    yield
    return _Comparison(before, after, count_values(templates_of(document), limit=MAX_TEMPLATE_VALUES))


class _Changes(NamedTuple):
    """The differences of two shared plans."""

    equal: tuple[Difference, ...]
    """Those that are the same in each node pool, as far as they decide about the effect."""
    varied: tuple[Difference, ...]
    """Those whose values depend on the node pool."""


class _Comparison:
    """Compares the plans of node pools before and after an edit."""

    def __init__(self, before: SubjectPlans, after: SubjectPlans, size: int) -> None:
        self._before: Final = before
        self._after: Final = after
        self._size: Final = size
        self._known: Final[dict[tuple[SharedPlan, SharedPlan], _Changes]] = {}

    @property
    def _compiled(self) -> int:
        return self._before.compiled + self._after.compiled

    @property
    def is_exhausted(self) -> bool:
        """Whether comparing further node pools would exceed the limit."""
        return self._size > MAX_TEMPLATE_VALUES or self._compiled * self._size > _MAX_RENDERED

    def compare(self, kind: str, pool: str, node_pool: JSONObject | None) -> Work[tuple[Effect | None, int]]:
        """Return the effect on one workload, None if there is none, and the units of work that it took."""
        compiled = self._compiled
        yield from self._before.prepare(kind, pool, node_pool)
        yield from self._after.prepare(kind, pool, node_pool)
        try:
            after = self._after.plan(kind, pool, node_pool)
        except (SubjectError, RenderError):
            return None, 1 + _PLAN_UNITS * (self._compiled - compiled)  # The validation reports it.
        try:
            before = self._before.plan(kind, pool, node_pool)
        except (SubjectError, RenderError):
            # The workload is as an earlier overrider rendered it.
            effect, units = (_ROLLED if after.applies else Effect("unchanged")), 1
        else:
            effect, units = yield from self._compare_plans(kind, before, after)
        self._make_room()
        return effect, units + _PLAN_UNITS * (self._compiled - compiled)

    def _compare_plans(self, kind: str, before: PoolPlan, after: PoolPlan) -> Work[tuple[Effect, int]]:
        units = 1 + (before.shared.hashed_bytes + after.shared.hashed_bytes) // _BYTES_PER_UNIT
        if before.digest == after.digest:
            return Effect("unchanged"), units
        known = self._known.get((before.shared, after.shared))
        if known is None:
            known = yield from _find_shared(before, after)
            self._known[before.shared, after.shared] = known
            units += self._size // _VALUES_PER_UNIT
        changes = list(known.equal)
        for start in range(0, len(known.varied), _MAX_CHANGES_AT_ONCE):
            if start:
                yield
            changes += _fill(known.varied[start : start + _MAX_CHANGES_AT_ONCE], before.values, after.values)
        documents = (_select(before.shared, before.values), _select(after.shared, after.values))
        effect = classify(kind, *documents, reduce_changes(changes) or _HASH_ONLY)
        return effect, units + len(known.varied) // _CHANGES_PER_UNIT

    def _make_room(self) -> None:
        for plans in (self._before, self._after):
            while plans.size > _MAX_PLAN_BYTES and plans.drop_oldest():
                self._known.clear()


def _find_shared(before: PoolPlan, after: PoolPlan) -> Work[_Changes]:
    """Return the differences of the shared plans of a pool that an update can make, with marks in place of its values.

    A mark may stand for one value before the edit and for another one after it, so values with the same mark of an
    entry are among the differences.
    """
    yield
    stored, requested = before.shared.plan.rendered, after.shared.plan.rendered
    if before.shared.is_marked == after.shared.is_marked:
        other = _OTHER_MARKS.fill(stored)
    else:
        # The plan of a single pool has the pool's name where the other one has a mark, also in names of list elements.
        other = stored = before.values.fill(stored)
        requested = after.values.fill(requested)
    yield
    found = find_changes(other, requested)
    # If entries set the replicas neither before nor after the edit, the edit has no effect on them.
    is_left = after.leaves_replicas or (
        before.leaves_replicas and "replicas" not in after.shared.plan.undo.get("spec", {})
    )
    fixed = _FIXED | {("spec", "replicas")} if is_left else _FIXED
    equal: list[Difference] = []
    varied: list[Difference] = []
    for start in range(0, len(found), _MAX_CHANGES_AT_ONCE):
        yield
        for one in found[start : start + _MAX_CHANGES_AT_ONCE]:
            if one.address[:2] not in fixed:
                read = one._replace(stored=_read_stored(stored, one))
                if _has_mark(read.requested) or _has_mark(read.stored):
                    varied.append(read)
                elif read.requested != read.stored:
                    equal.append(read)
    return _Changes(reduce_changes(equal), tuple(varied))


def _has_mark(value: JSON) -> bool:
    return value is not ABSENT and has_mark(value)


def _read_stored(document: JSONObject, difference: Difference) -> JSON:
    """Return the stored value of a difference with the marks that it has in a document."""
    if difference.stored is ABSENT:
        return ABSENT
    value: JSON = document
    for token in parse_pointer(difference.pointer):
        value = value[int(token)] if isinstance(value, list) else value[token]
    return value


def _fill(changes: Sequence[Difference], before: PoolValues, after: PoolValues) -> Iterator[Difference]:
    """Yield the differences that remain in a node pool: values with marks may be equal there."""
    for one in changes:
        requested = one.requested if one.requested is ABSENT else after.fill(one.requested)
        stored = one.stored if one.stored is ABSENT else before.fill(one.stored)
        if requested != stored:
            yield one._replace(requested=requested, stored=stored)


def _select(shared: SharedPlan, values: PoolValues) -> JSONObject:
    """Return the members of a rendered workload that a classification reads."""
    spec = shared.plan.rendered["spec"]
    names = ("replicas", "paused", "updateStrategy")
    return {"spec": values.fill({name: spec[name] for name in names if name in spec})}
