"""Whether a stored workload is as its overrider wants it: the question the controller asks, without a review."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from app.model.gvk import GroupKind
from app.model.json import JSON, JSONObject
from app.model.openyurt import POOL_NAME_LABEL
from app.model.quantity import Quantity
from app.overrider.owner import Owner, find_owner
from app.overrider.plans import PlanCache
from app.overrider.render import Place, render
from app.overrider.steps import RenderError
from app.overrider.template import SubjectError
from app.overrider.undo import RENDERED_ANNOTATION, remembered
from app.patch import PatchError, resolve_pointer
from app.store import Index, ObjectKey, StoreView
from app.store.narrow import Narrow

_AMOUNT: Final = re.compile(r"/resources/(limits|requests)/|/sizeLimit$|/divisor$")


Binding = ObjectKey
"""Where a subject is, and so, by it, its overriders and its workloads."""


class Assessment(NamedTuple):
    """How a workload stands."""

    differs: tuple[str, ...]
    """JSON pointers of what a render would change now."""
    error: str
    """Why it cannot be rendered, ``""`` if it can."""

    @property
    def as_wanted(self) -> bool:
        """Whether there is nothing to do."""
        return not self.differs and not self.error


def binding_of(workload: Narrow, cluster: str) -> Binding | None:
    """Return what a workload belongs to, None if no overrider can apply to it."""
    owner = find_owner({"ownerReferences": list(workload.owners)})
    return None if owner is None else Binding(cluster, owner.group_kind, workload.namespace, owner.name)


def _binding_keys(cluster: str, workload: Narrow) -> list[Binding]:
    binding = binding_of(workload, cluster)
    return [] if binding is None else [binding]


WORKLOAD_INDEXES: Final = {
    kind: Index(f"{kind}_by_binding", GroupKind("apps", kind), _binding_keys) for kind in ("Deployment", "StatefulSet")
}


def wanted_hash(
    workload: Narrow,
    binding: Binding,
    overrider: JSONObject | None,
    *,
    kind: str,
    store: StoreView,
    plans: PlanCache,
) -> str:
    """Return the hash that a workload is to carry, ``""`` where no entry applies to its pool.

    Raises:
        SubjectError: Nothing can be built from the subject, or it is gone.
        RenderError: An entry is broken in itself.
    """
    if overrider is None:
        return ""
    subject = store.get(*binding)
    if subject is None:
        raise SubjectError(f"its owner {binding.group_kind.kind} {binding.namespace}/{binding.name} is not known")
    pool = pool_of(workload)
    plan = plans.plan(
        binding.group_kind, subject, overrider, kind=kind, pool=pool, cluster=binding.cluster, store=store
    )
    return plan.digest


def pool_of(workload: Narrow) -> str:
    """Return the node pool of a workload, ``""`` if it has none."""
    pool = workload.labels.get(POOL_NAME_LABEL)
    return pool if isinstance(pool, str) else ""


def hash_of(workload: Narrow) -> str:
    """Return the hash that a workload carries, ``""`` if it was never rendered."""
    return str(workload.annotations.get(RENDERED_ANNOTATION) or "")


def assess(workload: JSONObject, *, kind: str, store: StoreView, plans: PlanCache) -> Assessment:
    """Return how a stored workload stands.

    Args:
        workload: The whole workload, as the apiserver holds it.
        kind: Deployment or StatefulSet.
        store: The objects.
        plans: What was compiled from them.
    """
    owner: Owner | None = find_owner(workload["metadata"])
    if owner is None or workload["metadata"].get("deletionTimestamp"):
        return Assessment((), "")
    place = Place(kind, workload["metadata"].get("namespace") or "", owner, creating=False)
    try:
        rendering = render(workload, place, memory=remembered(workload), store=store, plans=plans)
    except SubjectError:
        return Assessment((), "")  # Nobody's override is missing from it: its owner is going, or broken.
    except RenderError as error:
        return Assessment((), str(error))
    return Assessment(_differing(workload, rendering.operations), "")


def _differing(workload: JSONObject, operations: Sequence[JSONObject]) -> tuple[str, ...]:
    return tuple(step["path"] for step in operations if not _same_amount(workload, step))


def _same_amount(workload: JSONObject, step: JSONObject) -> bool:
    """Return whether a step only writes an amount of a resource in other words.

    An apiserver stores quantities in their canonical form, so ``0.5`` comes back as ``500m`` and would be a difference
    for ever.
    """
    value = step.get("value")
    if (
        step["op"] != "replace"
        or not _AMOUNT.search(step["path"])
        or not isinstance(value, (str, int))
        or isinstance(value, bool)
    ):
        return False
    try:
        present: JSON = resolve_pointer(workload, step["path"])
        return isinstance(present, (str, int)) and Quantity.parse(present) == Quantity.parse(value)
    except (PatchError, ValueError):
        return False
