"""Whether a stored workload is as its overrider wants it: the question the controller asks, without a review."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from app.model.gvk import GroupKind, parse_api_version
from app.model.json import JSONObject
from app.model.openyurt import POOL_NAME_LABEL
from app.overrider.differences import Difference, find_differences, fingerprint
from app.overrider.owner import SUBJECT_KINDS, Owner, find_owner, find_owner_in
from app.overrider.plans import PlanCache
from app.overrider.pool_template import SubjectError
from app.overrider.render import Place, render
from app.overrider.shared_plan import PoolPlan
from app.overrider.steps import RenderError
from app.overrider.undo import RENDERED_ANNOTATION, remembered
from app.patch import apply
from app.store import Index, ObjectKey, StoreView
from app.store.partial import PartialObject

Binding = ObjectKey
"""Where a subject is, and so, by it, its overriders and its workloads."""


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


def binding_of(workload: PartialObject, cluster: str) -> Binding | None:
    """Return what a workload belongs to, None if no overrider can apply to it."""
    owner = find_owner_in(workload.owners)
    return None if owner is None else Binding(cluster, owner.group_kind, workload.namespace, owner.name)


def owner_version(workload: PartialObject) -> str:
    """Return the API version in which a workload names its owner, ``""`` if no overrider can apply to it."""
    owner = find_owner_in(workload.owners)
    return "" if owner is None else owner.api_version


def _binding_keys(cluster: str, workload: PartialObject) -> list[Binding]:
    binding = binding_of(workload, cluster)
    return [] if binding is None else [binding]


def _rendered_keys(cluster: str, workload: PartialObject) -> list[Binding]:
    return _binding_keys(cluster, workload) if hash_of(workload) else []


def _other_version_keys(cluster: str, workload: PartialObject) -> list[Binding]:
    if binding_of(workload, cluster) is not None:
        return []
    owners = [(reference, str(reference.get("apiVersion") or "")) for reference in workload.owners]
    kinds = (
        (reference, GroupKind(parse_api_version(version)[0], reference.get("kind", "")))
        for reference, version in owners
    )
    return [
        Binding(cluster, kind, workload.namespace, str(reference.get("name")))
        for reference, kind in kinds
        if kind in SUBJECT_KINDS
    ]


_KINDS: Final = ("Deployment", "StatefulSet")
WORKLOAD_INDEXES: Final = {kind: Index(f"{kind}_by_binding", GroupKind("apps", kind), _binding_keys) for kind in _KINDS}
RENDERED_INDEXES: Final = {kind: Index(f"rendered_{kind}", GroupKind("apps", kind), _rendered_keys) for kind in _KINDS}
"""The workloads that carry a hash."""
OTHER_VERSION_INDEXES: Final = {
    kind: Index(f"{kind}_of_other_version", GroupKind("apps", kind), _other_version_keys) for kind in _KINDS
}
"""The workloads of subjects in a version that is not known."""


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


def pool_of(workload: PartialObject) -> str:
    """Return the node pool of a workload, ``""`` if it has none."""
    pool = workload.labels.get(POOL_NAME_LABEL)
    return pool if isinstance(pool, str) else ""


def hash_of(workload: PartialObject) -> str:
    """Return the hash that a workload carries, ``""`` if it was never rendered."""
    return str(workload.annotations.get(RENDERED_ANNOTATION) or "")


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
