"""Predicts the effect of an overrider's edit at admission, from the rendering of each node pool before and after it.

A replica that answers reviews stores no workloads (docs/decisions/0005-controller.md), so the prediction takes each
workload to be as its overrider rendered it. `app.overrider.rollout.prediction` uses the stored workloads.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from app.control.slices import Pauses, Sliced
from app.model.gvk import GroupKind
from app.model.json import JSONObject
from app.model.size import count_values
from app.overrider.differences import ABSENT, Difference
from app.overrider.dry_run import Subject
from app.overrider.patch_limits import MAX_TEMPLATE_VALUES
from app.overrider.plan_cache import SubjectPlans
from app.overrider.pool_mark import NO_VALUES, PoolValues
from app.overrider.pool_template import CREATE_ONLY, SubjectError
from app.overrider.rollout.effect import Effect, classify, find_changes
from app.overrider.rollout.summary import Totals, sum_effects
from app.overrider.shared_plan import PoolPlan, SharedPlan
from app.overrider.steps import RenderError
from app.overrider.subject_parts import templates_of, workload_kinds

# Units of work between two pauses. Comparing two known plans takes one, some 0.05 ms; compiling a plan takes
# `_PLAN_UNITS`, comparing two filled plans `_FILL_UNITS`.
_SLICE: Final = 40
_PLAN_UNITS: Final = 30
_FILL_UNITS: Final = 10
# Limits the time if every node pool needs plans of its own: 500 plans of 400 values take half a second.
_MAX_RENDERED: Final = 200_000
_MAX_PLAN_BYTES: Final = 8 << 20
_MAX_NAMED: Final = 5
_ROLLED: Final = Effect("rolls")
_FIXED: Final = frozenset({("spec", name) for name in CREATE_ONLY - {"replicas"}})


class Edit(NamedTuple):
    """An edit of the effective overrider of a subject, with the objects that the rendering depends on."""

    subject: Subject
    before: JSONObject | None
    after: JSONObject | None
    pools: Sequence[str]
    node_pools: Mapping[str, JSONObject | None]


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


def predict_edit(edit: Edit) -> Sliced[EditEffects]:
    """Return the effect of an edit on the workloads of all node pools. Reads nothing that can change during a pause."""
    comparison = _Comparison(edit)
    effects: list[Effect] = []
    rolling: list[str] = []
    uncompared, kinds, pauses = 0, workload_kinds(edit.subject.document), Pauses(_SLICE)
    yield
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


class _Comparison:
    """Compares the plans of node pools before and after an edit."""

    def __init__(self, edit: Edit) -> None:
        group_kind, document, _ = edit.subject
        self._group_kind: Final[GroupKind] = group_kind
        self._before: Final = SubjectPlans(group_kind, document, edit.before)
        self._after: Final = SubjectPlans(group_kind, document, edit.after)
        self._size: Final = count_values(templates_of(document), limit=MAX_TEMPLATE_VALUES)
        self._known: Final[dict[tuple[SharedPlan, SharedPlan], tuple[Difference, ...]]] = {}

    @property
    def _compiled(self) -> int:
        return self._before.compiled + self._after.compiled

    @property
    def is_exhausted(self) -> bool:
        """Whether comparing further node pools would exceed the limit."""
        return self._size > MAX_TEMPLATE_VALUES or self._compiled * self._size > _MAX_RENDERED

    def compare(self, kind: str, pool: str, node_pool: JSONObject | None) -> Sliced[tuple[Effect | None, int]]:
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
            effect, units = self._compare_plans(kind, before, after)
        self._make_room()
        return effect, units + _PLAN_UNITS * (self._compiled - compiled)

    def _compare_plans(self, kind: str, before: PoolPlan, after: PoolPlan) -> tuple[Effect, int]:
        if before.digest == after.digest:
            return Effect("unchanged"), 1
        if before.values.of_entries is NO_VALUES and after.values.of_entries is NO_VALUES:
            changes = tuple(_fill(self._find_shared(before.shared, after.shared), before.values))
            documents = (_select(before.shared, before.values), _select(after.shared, after.values))
            return classify(kind, *documents, _keep(changes)), 1
        filled = before.full.rendered, after.full.rendered
        return classify(kind, *filled, _keep(find_changes(*filled))), _FILL_UNITS

    def _find_shared(self, before: SharedPlan, after: SharedPlan) -> tuple[Difference, ...]:
        """Return the differences of two shared plans, with marks in place of the values of pools."""
        known = self._known.get((before, after))
        if known is None:
            known = find_changes(before.plan.rendered, after.plan.rendered)
            self._known[before, after] = known
        return known

    def _make_room(self) -> None:
        for plans in (self._before, self._after):
            while plans.size > _MAX_PLAN_BYTES and plans.drop_oldest():
                self._known.clear()


def _fill(changes: Sequence[Difference], values: PoolValues) -> Iterator[Difference]:
    """Yield the differences that remain in a node pool: a text with its name may equal another text."""
    for one in changes:
        requested, stored = (value if value is ABSENT else values.fill(value) for value in (one.requested, one.stored))
        if requested != stored:
            yield one._replace(requested=requested, stored=stored)


def _keep(changes: Sequence[Difference]) -> list[Difference]:
    """Return the differences that an update can make. A changed hash always changes an annotation."""
    kept = [one for one in changes if one.address[:2] not in _FIXED]
    return kept or [Difference("/metadata/annotations", ("metadata", "annotations"), "", "")]


def _select(shared: SharedPlan, values: PoolValues) -> JSONObject:
    """Return the members of a rendered workload that a classification reads."""
    spec = shared.plan.rendered["spec"]
    names = ("replicas", "paused", "updateStrategy")
    return {"spec": values.fill({name: spec[name] for name in names if name in spec})}
