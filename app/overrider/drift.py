"""Whether a stored workload is as its overrider wants it: the question the controller asks, without a review."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from app.model.json import JSONObject
from app.overrider.binding import Binding
from app.overrider.bound_workloads import pool_of
from app.overrider.differences import Difference, find_differences, fingerprint
from app.overrider.owner import Owner, find_owner
from app.overrider.plans import PlanCache
from app.overrider.pool_template import SubjectError
from app.overrider.render import Place, render
from app.overrider.shared_plan import PoolPlan
from app.overrider.steps import RenderError
from app.overrider.undo import remembered
from app.patch import apply
from app.store import StoreView
from app.store.partial import PartialObject


class Drift(NamedTuple):
    """How a workload compares with what its overrider, or its template, wants."""

    differences: tuple[Difference, ...]
    """What a render would change now."""
    error: str
    """Why it cannot be rendered, ``""`` if it can."""
    operations: Sequence[JSONObject] = ()
    """The JSON patch that renders it."""

    @property
    def is_in_sync(self) -> bool:
        """Whether there is nothing to do."""
        return not self.differences and not self.error

    @property
    def identity(self) -> str:
        """A text that is the same as long as the same is wrong; ``""`` if nothing is."""
        return self.error or (fingerprint(self.differences) if self.differences else "")

    @property
    def pointers(self) -> tuple[str, ...]:
        """Where the workload differs."""
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
) -> PoolPlan:
    """Return the plan for a workload.

    Raises:
        SubjectError: Nothing can be built from the subject, or it is gone.
        RenderError: An entry does not fit the template, or is broken in itself.
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
    )


def detect_drift(workload: JSONObject, *, kind: str, store: StoreView, plans: PlanCache) -> Drift:
    """Return how a stored workload compares with what is wanted.

    Args:
        workload: The whole workload, as the apiserver holds it.
        kind: Deployment or StatefulSet.
        store: The objects.
        plans: What was compiled from them.
    """
    owner: Owner | None = find_owner(workload["metadata"])
    if owner is None or workload["metadata"].get("deletionTimestamp"):
        return NO_DRIFT
    place = Place(kind, workload["metadata"].get("namespace") or "", owner, creating=False)
    try:
        rendering = render(workload, place, memory=remembered(workload), store=store, plans=plans)
    except SubjectError:
        return NO_DRIFT  # No override is missing from it: its owner is going, or broken.
    except RenderError as error:
        return Drift((), str(error))
    if not rendering.operations:
        return NO_DRIFT
    differences = find_differences(workload, apply(workload, rendering.operations))
    return Drift(differences, "", rendering.operations) if differences else NO_DRIFT
