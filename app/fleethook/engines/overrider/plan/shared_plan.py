"""Plans that pools share, and the values of each pool.

A shared plan is compiled with marks in place of a pool's values. If a render needs the full plan of a pool, the marks
are filled. The hash and the undo of a pool are computed from text, without filling the plan.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Final, Generic, TypeVar

import msgspec

from fleethook.engines.overrider.plan.plan import Plan, compile_patch, digest_text
from fleethook.engines.overrider.render.fast_path import PrecompiledPatch
from fleethook.engines.overrider.render.undo import LastRender, hash_text
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

# Filled patches: 16 MB at most.
MAX_PATCHES: Final = 2_048

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
        self.names: Final = find_names((plan.create.bare, plan.create.rendered)) if self.is_marked else _NO_NAMES
        """The names of elements with the mark, and the other names; None if no pool can share the plan."""
        self._longest: Final = _find_longest_name(plan.create.rendered) if self.is_marked else MAX_SUBDOMAIN
        self._text: Final = (
            digest_text(kind, pool, plan.create.rendered, plan.undo_text, tweaks=plan.template.tweaks)
            if self.is_marked and plan.steps
            else b""
        )

    @cached_property
    def fast(self) -> PrecompiledPatch | None:
        """The patch of workloads that match the template, None if every workload must be rendered."""
        return compile_patch(self.plan)

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


_K = TypeVar("_K")
_V = TypeVar("_V")


class _Recent(Generic[_K, _V]):
    """The values that were requested most recently."""

    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self._values: Final[OrderedDict[_K, _V]] = OrderedDict()

    def get(self, key: _K, make: Callable[[_K], _V]) -> _V:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
            return value
        value = self._values[key] = make(key)
        if len(self._values) > self._limit:
            self._values.popitem(last=False)
        return value


class FilledPlans:
    """A cache of filled plans, patches and fillers; the least recently used ones are evicted first."""

    def __init__(self) -> None:
        """Create an empty cache."""
        self._plans: Final[_Recent[PoolPlan, Plan]] = _Recent(MAX_FILLED)
        self._patches: Final[_Recent[PoolPlan, PrecompiledPatch]] = _Recent(MAX_PATCHES)
        self._plan_fillers: Final[_Recent[SharedPlan, Filler]] = _Recent(MAX_FILLERS)
        self._patch_fillers: Final[_Recent[SharedPlan, Filler]] = _Recent(MAX_FILLERS)

    def get_plan(self, of: "PoolPlan") -> Plan:
        """Return the plan of a pool with its values."""
        return self._plans.get(of, self._fill_plan)

    def get_patch(self, of: "PoolPlan") -> PrecompiledPatch:
        """Return the patch of a pool with its values."""
        return self._patches.get(of, self._fill_patch)

    def _fill_plan(self, of: "PoolPlan") -> Plan:
        filler = self._plan_fillers.get(of.shared, lambda shared: Filler(msgspec.structs.astuple(shared.plan)))
        return msgspec.structs.replace(Plan(*filler.fill(of.values)), digest=of.digest)

    def _fill_patch(self, of: "PoolPlan") -> PrecompiledPatch:
        patch: PrecompiledPatch = self._patch_fillers.get(of.shared, lambda shared: Filler(shared.fast)).fill(of.values)
        return patch.name_checks()


class PoolPlan:
    """The plan of one pool: a shared plan and the values of the pool."""

    __slots__ = ("_filled", "digest", "shared", "undo_text", "values")

    def __init__(self, shared: SharedPlan, values: PoolValues, *, filled: FilledPlans) -> None:
        """Compute the hash and the undo of the pool."""
        self._filled: Final = filled
        self.shared: Final = shared
        self.values: Final = values
        """The values of the pool for the marks of the plan."""
        self.digest: Final = shared.digest(values)
        """See `Plan`."""
        text = shared.plan.undo_text
        self.undo_text: Final = values.fill_text(text) if shared.is_marked else text
        """See `Plan`."""

    @property
    def applies(self) -> bool:
        """Whether an entry applies to the pool."""
        return bool(self.shared.plan.steps)

    @property
    def leaves_replicas(self) -> bool:
        """Whether existing workloads keep their replicas, which another owner sets."""
        return self.shared.plan.leaves_replicas

    @property
    def last_render(self) -> LastRender:
        """The annotations that a render sets on a workload without changes by other writers."""
        return LastRender(self.digest, self.undo_text, self.shared.plan.template.tweaks)

    @property
    def fast(self) -> PrecompiledPatch | None:
        """The patch of a workload that matches the template, None if every workload must be rendered."""
        fast = self.shared.fast
        return fast if fast is None or not self.shared.is_marked else self._filled.get_patch(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for reviews of the pool's workload."""
        warnings = self.shared.plan.warnings
        return tuple(map(self.values.fill_text, warnings)) if self.shared.is_marked else warnings

    @property
    def rendered(self) -> JSONObject:
        """See `Plan`; takes less time than `full` if nothing else is needed."""
        rendered = self.shared.plan.create.rendered
        filled: JSONObject = self.values.fill(rendered) if self.shared.is_marked else rendered
        return filled

    @property
    def full(self) -> Plan:
        """The plan with the values of the pool in place of all marks."""
        return self._filled.get_plan(self) if self.shared.is_marked else self.shared.plan


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
