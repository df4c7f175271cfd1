"""Plans that pools share, and the values of each pool.

A shared plan is compiled with marks in place of a pool's values. If a render needs the full plan of a pool, the marks
are filled. The hash and the undo of a pool are computed from text, without filling the plan.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from functools import cached_property
from typing import Final
from weakref import ref

import msgspec

from fleethook.engines.overrider.plan.plan import Plan, compile_patch, digest_text
from fleethook.engines.overrider.render.fast_path import PrecompiledPatch
from fleethook.engines.overrider.render.undo import Memory, hash_text
from fleethook.model.formats.field_errors import MAX_LABEL, MAX_SUBDOMAIN
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.workload_schema.value_marks import (
    POOL_MARK,
    Filler,
    PoolValues,
)

# A render requests the same filled plan several times. All of them together take 3 MB at most.
MAX_FILLED: Final = 64
# A render needs the filler of its subject. Finding the marks again takes ten times as long as filling them, so the
# fillers of many subjects are cached: 25 MB at most.
MAX_FILLERS: Final = 512

# Filled patches of pools that get many reviews: 16 MB at most.
MAX_PATCHES: Final = 2_048
# Filling a patch takes as long as three comparisons with the marks, so it pays only for a pool with requests in quick
# succession. A pass of the controller requests the patch of each pool once or twice.
_REQUESTS_BEFORE_FILLING: Final = 3

_Names = tuple[frozenset[str], frozenset[str]]
"""The names of elements with the mark, and the other names."""
_NO_NAMES: Final[_Names] = (frozenset(), frozenset())


class SharedPlan:
    """The plan of all pools of a subject that differ only by their `PoolValues`."""

    def __init__(self, plan: Plan, *, kind: str, pool: str) -> None:
        """Prepare a plan for other pools.

        Args:
            plan: The plan, compiled for the mark or for a single pool.
            kind: Deployment or StatefulSet.
            pool: The name that the plan was compiled for.
        """
        self.plan: Final = plan
        self.is_marked: Final = pool == POOL_MARK
        self.names: Final = find_names((plan.bare, plan.rendered)) if self.is_marked else _NO_NAMES
        """The names of elements with the mark, and the other names; None if no pool can share the plan."""
        self._longest: Final = _find_longest_name(plan.rendered) if self.is_marked else MAX_SUBDOMAIN
        self._text: Final = (
            digest_text(kind, pool, plan.rendered, plan.undo_text, tweaks=plan.template.tweaks)
            if self.is_marked and plan.steps
            else b""
        )

    @cached_property
    def fast(self) -> PrecompiledPatch | None:
        """The patch of workloads that match the template, None if every workload must be rendered."""
        return compile_patch(self.plan)

    @cached_property
    def changed_values(self) -> Filler:
        """Fills `PoolPlan.changed_values`."""
        return Filler(tuple(leaf.values for leaf in self.plan.list_changes()))

    def confuses(self, pool: str) -> bool:
        """Return whether ``pool`` needs a plan of its own.

        An element named after the pool has the same name as another element there, or a label gets too long.
        """
        marked, others = self.names or _NO_NAMES
        return len(pool) > self._longest or any(name.replace(POOL_MARK, pool) in others for name in marked)

    def digest(self, values: PoolValues) -> str:
        """Return the hash for a pool."""
        if not self._text:
            return self.plan.digest
        return hash_text(values.fill_json(self._text))

    def filler(self, *, creating: bool) -> Filler:
        """Return a filler for the members of the plan.

        Args:
            creating: Whether to fill the members that only a new workload needs.
        """
        plan = self.plan
        if not creating:
            plan = msgspec.structs.replace(plan, create=plan.update, rendered=plan.bare)
        return Filler(msgspec.structs.astuple(plan))


class FilledPlans:
    """A cache of filled plans, patches and fillers; the least recently used plans and fillers are evicted first."""

    def __init__(self) -> None:
        """Create an empty cache."""
        self._plans: Final[OrderedDict[tuple[SharedPlan, PoolValues, bool], Plan]] = OrderedDict()
        self._fillers: Final[OrderedDict[tuple[SharedPlan, bool | None], Filler]] = OrderedDict()
        # A pool holds its patch. A pool whose plan was dropped is not kept for it.
        self._patched: Final[deque[ref[PoolPlan]]] = deque()
        self.requests = 0
        """The requests of patches that were not filled."""

    def get(self, of: "PoolPlan", *, creating: bool) -> Plan:
        """Return the filled plan of a pool; without ``creating``, the members of new workloads are not filled."""
        if not of.shared.is_marked:
            return of.shared.plan
        key = (of.shared, of.values, creating)
        plan = self._plans.get(key)
        if plan is None:
            members = self._get_filler(of.shared, creating).fill(of.values)
            plan = self._plans[key] = msgspec.structs.replace(Plan(*members), digest=of.digest)
            if len(self._plans) > MAX_FILLED:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(key)
        return plan

    def fill_patch(self, of: "PoolPlan") -> PrecompiledPatch:
        """Return the patch of a pool with its values; the oldest pool drops its patch if there are too many."""
        patch: PrecompiledPatch = self._get_filler(of.shared, None).fill(of.values)
        self._patched.append(ref(of))
        if len(self._patched) > MAX_PATCHES and (oldest := self._patched.popleft()()) is not None:
            oldest.forget_patch()
        return patch.name_checks()

    def _get_filler(self, shared: SharedPlan, creating: bool | None) -> Filler:  # noqa: FBT001 - part of a key
        """Return the filler of a plan, or of its patch if ``creating`` is None."""
        key = (shared, creating)
        filler = self._fillers.get(key)
        if filler is None:
            made = Filler(shared.fast) if creating is None else shared.filler(creating=creating)
            filler = self._fillers[key] = made
            if len(self._fillers) > MAX_FILLERS:
                self._fillers.popitem(last=False)
        else:
            self._fillers.move_to_end(key)
        return filler


class PoolPlan:
    """The plan of one pool: a shared plan and the values of the pool."""

    __slots__ = (
        "__weakref__", "_filled", "_patch", "_requested_at", "_requests", "digest", "pool", "replicas",
        "shared", "undo_text",
    )  # fmt: skip

    def __init__(self, shared: SharedPlan, values: PoolValues, *, filled: FilledPlans) -> None:
        """Compute the hash and the undo of the pool."""
        self._filled: Final = filled
        self._patch: PrecompiledPatch | None = None
        self._requested_at = self._requests = 0
        self.shared: Final = shared
        self.pool: Final = values.pool
        self.replicas: Final = values.replicas
        self.digest: Final = shared.digest(values)
        """See `Plan`."""
        text = shared.plan.undo_text
        self.undo_text: Final = values.fill_text(text) if shared.is_marked else text
        """See `Plan`."""

    @property
    def values(self) -> PoolValues:
        """The values of the pool for the marks of the plan."""
        return PoolValues(self.pool, self.replicas)

    @property
    def applies(self) -> bool:
        """Whether an entry applies to the pool."""
        return bool(self.shared.plan.steps)

    @property
    def leaves_replicas(self) -> bool:
        """Whether existing workloads keep their replicas, which another owner sets."""
        return self.shared.plan.leaves_replicas

    @property
    def memory(self) -> Memory:
        """The annotations that a render sets on a workload without changes by other writers."""
        return Memory(self.digest, self.undo_text, self.shared.plan.template.tweaks)

    @property
    def fast(self) -> PrecompiledPatch | None:
        """The patch of a workload that matches the template; after some requests, with the values of the pool."""
        fast = self._patch or self.shared.fast
        if fast is None or fast is self._patch or not self.shared.is_marked:
            return fast
        if not self._is_requested_often():
            return fast
        self._patch = self._filled.fill_patch(self)
        return self._patch

    def _is_requested_often(self) -> bool:
        """Count a request, and return whether enough of them came in quick succession."""
        self._filled.requests += 1
        if self._filled.requests - self._requested_at > MAX_PATCHES:
            self._requests = 0
        self._requested_at = self._filled.requests
        self._requests += 1
        return self._requests > _REQUESTS_BEFORE_FILLING

    def forget_patch(self) -> None:
        """Drop the patch with the values of the pool, until it is requested often."""
        self._patch, self._requests = None, 0

    @property
    def changed_values(self) -> Sequence[tuple[JSON, JSON]]:
        """The values before and after each difference that the entries make, None for an absent one.

        Both values may be equal, if only other pools that share the plan have the difference.
        """
        found: Sequence[tuple[JSON, JSON]] = self.shared.changed_values.fill(self.values)
        return found

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for reviews of the pool's workload."""
        warnings = self.shared.plan.warnings
        return tuple(map(self.values.fill_text, warnings)) if self.shared.is_marked else warnings

    @property
    def rendered(self) -> JSONObject:
        """See `Plan`; takes less time than `full` if nothing else is needed."""
        rendered = self.shared.plan.rendered
        filled: JSONObject = self.values.fill(rendered) if self.shared.is_marked else rendered
        return filled

    @property
    def full(self) -> Plan:
        """The plan with the values of the pool in place of all marks."""
        return self._filled.get(self, creating=True)

    @property
    def for_update(self) -> Plan:
        """The filled plan for updates. Callers must not read ``create`` and ``rendered``."""
        return self._filled.get(self, creating=False)


def _find_longest_name(rendered: JSON) -> int:
    """Return the length of the longest pool name for which every label of a rendered workload is valid."""
    workload = as_object(rendered)
    template = as_object(as_object(workload.get("spec")).get("template"))
    labels = [as_object(as_object(one.get("metadata")).get("labels")) for one in (workload, template)]
    labels.append(as_object(as_object(template.get("spec")).get("nodeSelector")))
    values = [value for one in labels for value in one.values() if isinstance(value, str) and POOL_MARK in value]
    room = [(MAX_LABEL - len(value.replace(POOL_MARK, ""))) // value.count(POOL_MARK) for value in values]
    return min(room, default=MAX_SUBDOMAIN)


def find_names(documents: tuple[JSON, ...]) -> _Names | None:
    """Return the names of elements with the mark, and the other names; None if the key of an object has the mark.

    In some pool, an element with a mark may get the name of another element. Keys with a mark cannot be shared, because
    the order of keys is part of the hash.
    """
    found: list[JSON] = []
    seen: set[int] = set()  # The documents share objects; each is visited once.
    pending = [*documents]
    while pending:
        value = pending.pop()
        if not isinstance(value, (dict, list)) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            if POOL_MARK in "\n".join(value):
                return None
            pending += value.values()
        else:
            pending += value
            for element in value:
                if isinstance(element, dict):
                    found += map(element.get, _IDENTIFYING)
    names = frozenset(name for name in found if isinstance(name, str))
    marked = frozenset(name for name in names if POOL_MARK in name)
    return marked, names - marked if marked else frozenset()


# The members of an element that may identify it.
_IDENTIFYING: Final = ("name", "mountPath", "devicePath", "ip", "key", "value", "topologyKey")
