"""Detects drift: differences between a stored workload and the workload that a review would render.

Only the controller needs this. A review always renders.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from fleethook.cluster.store import StoreView
from fleethook.cluster.store.store import PartialObject
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.plan.shared_plan import PoolPlan
from fleethook.engines.overrider.render.member_differences import Difference, find_differences, fingerprint
from fleethook.engines.overrider.render.render import RenderTarget, render
from fleethook.engines.overrider.render.undo import remembered
from fleethook.engines.overrider.subject.binding import Binding, Owner, find_owner, pool_of
from fleethook.engines.overrider.template.pool_template import SubjectError
from fleethook.model.json import JSONObject
from fleethook.patch import apply


class Drift(NamedTuple):
    """The differences between a stored workload and its rendered form."""

    differences: tuple[Difference, ...]
    """The members that a render would change."""
    error: str
    """The reason why the workload cannot be rendered, ``""`` if it can be."""
    operations: Sequence[JSONObject] = ()
    """The JSON patch that renders the workload."""

    @property
    def is_in_sync(self) -> bool:
        """Whether the workload needs no write."""
        return not self.differences and not self.error

    @property
    def identity(self) -> str:
        """A text that identifies the drift: equal drifts have equal texts. ``""`` without drift."""
        return self.error or (fingerprint(self.differences) if self.differences else "")

    @property
    def pointers(self) -> tuple[str, ...]:
        """JSON pointers of the differences."""
        return tuple(one.pointer for one in self.differences)


NO_DRIFT: Final = Drift((), "")


def find_plan(
    workload: PartialObject,
    binding: Binding,
    overrider: JSONObject | None,
    *,
    kind: str,
    store: StoreView,
    plans: PlanCache,
    compiles: bool = True,
) -> PoolPlan:
    """Return the plan for a workload.

    Raises:
        NotCompiledError: The plan has to be compiled, and ``compiles`` is False.
        SubjectError: The subject is gone, or has no valid template for this workload.
        RenderError: An entry is invalid, or does not fit the template.
    """
    subject = store.get(*binding)
    if subject is None:
        raise SubjectError(f"its owner {binding.group_kind.kind} {binding.namespace}/{binding.name} is not known")
    return plans.plan(
        binding.group_kind,
        subject,
        overrider,
        kind=kind,
        pool=pool_of(workload),
        cluster=binding.cluster,
        store=store,
        compiles=compiles,
    )


def detect_drift(workload: JSONObject, *, kind: str, store: StoreView, plans: PlanCache) -> Drift:
    """Return the drift of a stored workload.

    Args:
        workload: The complete workload, as the apiserver returns it.
        kind: Deployment or StatefulSet.
        store: Overriders, subjects and node pools.
        plans: The plans that were compiled from them.
    """
    owner: Owner | None = find_owner(workload["metadata"])
    if owner is None or workload["metadata"].get("deletionTimestamp"):
        return NO_DRIFT
    target = RenderTarget(kind, workload["metadata"].get("namespace") or "", owner, creating=False)
    try:
        rendering = render(workload, target, memory=remembered(workload), store=store, plans=plans)
    except SubjectError:
        return NO_DRIFT  # The owner is gone or invalid, so no override applies.
    except RenderError as error:
        return Drift((), str(error))
    if not rendering.operations:
        return NO_DRIFT
    differences = find_differences(workload, apply(workload, rendering.operations))
    return Drift(differences, "", rendering.operations) if differences else NO_DRIFT
