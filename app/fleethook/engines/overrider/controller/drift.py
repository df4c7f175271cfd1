"""Detects drift: differences between a stored workload and the workload that a review would render.

Only the controller needs this. A review always renders.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from fleethook.cluster.store import ObjectKey, PartialObject, StoreView
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

MAX_WORKLOADS: Final = 20_000
# A status names three. Pointers may be long.
MAX_POINTERS: Final = 10


class Unstored(NamedTuple):
    """The values of one request that the apiserver did not store."""

    identity: str
    """The identity of the drift, which changes with the requested and with the stored values."""
    lost: tuple[str, ...]
    """Pointers of requested values that are missing: unknown members, or members that a webhook changes."""
    insignificant: tuple[str, ...]
    """Pointers of empty values and defaults."""


def summarize_unstored(identity: str, differences: Sequence[Difference]) -> Unstored:
    """Summarize the differences that are left after a request."""
    lost = [one.pointer for one in differences if not one.insignificant]
    rest = [one.pointer for one in differences if one.insignificant]
    return Unstored(identity, tuple(lost[:MAX_POINTERS]), tuple(rest[:MAX_POINTERS]))


class UnstoredValues:
    """The unstored values of workloads; the oldest are evicted first."""

    def __init__(self, *, max_workloads: int = MAX_WORKLOADS) -> None:
        """Remember at most ``max_workloads`` workloads."""
        self._max_workloads: Final = max_workloads
        self._known: Final[OrderedDict[ObjectKey, Unstored]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of workloads with unstored values."""
        return len(self._known)

    def get(self, key: ObjectKey) -> Unstored | None:
        """Return the unstored values of a workload, None if it has none."""
        return self._known.get(key)

    def explains(self, key: ObjectKey, identity: str) -> bool:
        """Return whether the apiserver is known not to store exactly these differences."""
        known = self._known.get(key)
        return known is not None and known.identity == identity

    def remember(self, key: ObjectKey, found: Unstored) -> None:
        """Remember the unstored values of a workload."""
        self._known.pop(key, None)
        self._known[key] = found
        if len(self._known) > self._max_workloads:
            self._known.popitem(last=False)

    def forget(self, key: ObjectKey) -> None:
        """Forget a workload that was deleted, or that has no unstored values any more."""
        self._known.pop(key, None)

    def forget_lost(self, *, most: int) -> None:
        """Forget the oldest lost values, so that the controller requests them again: their webhook may be gone.

        Args:
            most: The number of workloads to forget; the next call continues with the others.
        """
        lost = (key for key, known in self._known.items() if known.lost)
        for key in list(islice(lost, most)):
            del self._known[key]


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
