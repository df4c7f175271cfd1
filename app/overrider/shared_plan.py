"""A plan that pools share, and the part of a plan that is one pool's own.

A shared plan is compiled with a mark in place of the pool's name. It is filled in for a pool where a render needs the
whole plan; the hash and the undo of a pool are made from texts.
"""

from collections import OrderedDict
from collections.abc import Hashable
from sys import getsizeof
from typing import Final

import msgspec

from app.control.slices import Sliced
from app.model.json import JSON
from app.overrider.fast_path import PrecompiledPatch
from app.overrider.plan import Plan, digest_text, hash_text
from app.overrider.plan_size import size_of
from app.overrider.pool_mark import NO_VALUES, POOL_MARK, EntryValues, Filler, PoolValues
from app.overrider.undo import Memory

# Each takes as much as a plan of its own; a render asks for one, several times in a row. All of them take 3 MB at most.
MAX_FILLED: Final = 64
# A review that renders needs one of its subject. Finding the marks again costs ten times the fill, so those of many
# subjects are kept: 25 MB at most.
MAX_FILLERS: Final = 512

# Measured with tracemalloc: a pool, and the tuples of the values of its own entries.
_POOL_BYTES: Final = 430
_VALUES_BYTES: Final = 330

_Names = tuple[frozenset[str], frozenset[str]]
"""The names of elements that have the mark, and the others."""
_NO_NAMES: Final[_Names] = (frozenset(), frozenset())


class SharedPlan:
    """A plan of all pools of a subject that differ by `PoolValues` alone."""

    __slots__ = ("__weakref__", "_text", "is_marked", "key", "names", "plan", "pools", "size")

    def __init__(
        self, plan: Plan, *, key: Hashable, text: bytes, names: "_Names | None", size: int, is_marked: bool
    ) -> None:
        """Keep a plan; see `share_plan`."""
        self.plan: Final = plan
        self.key: Final = key
        self.pools = 0
        """How many pools share it."""
        self.is_marked: Final = is_marked
        self.names: Final = names
        self.size: Final = size
        self._text: Final = text

    def confuses(self, pool: str) -> bool:
        """Return whether an element that is named after its pool has, in ``pool``, the name of another one."""
        marked, others = self.names or _NO_NAMES
        return any(name.replace(POOL_MARK, pool) in others for name in marked)

    def digest(self, values: PoolValues) -> str:
        """Return the hash for a pool."""
        return hash_text(values.fill_json(self._text)) if self._text else self.plan.digest

    def filler(self, *, creating: bool) -> Filler:
        """Return the means to fill the members of the whole plan.

        Args:
            creating: Whether to fill the members that only a new workload needs, too.
        """
        plan = self.plan
        if not creating:
            plan = msgspec.structs.replace(plan, create=plan.update, rendered=plan.bare, fast=None)
        return Filler(msgspec.structs.astuple(plan))


def share_plan(plan: Plan, *, kind: str, pool: str, key: Hashable, template: JSON) -> Sliced[SharedPlan]:
    """Return a plan for all pools that differ by `PoolValues` alone.

    Args:
        plan: Compiled for the mark, or for the one pool that it is for.
        kind: Deployment or StatefulSet.
        pool: The name that it was compiled for.
        key: The settings that the pools with this plan have in common.
        template: The subject's, which is not counted into its size.
    """
    is_marked = pool == POOL_MARK
    names = find_names((plan.bare, plan.rendered)) if is_marked else _NO_NAMES
    text = digest_text(kind, pool, plan.rendered, plan.undo_text) if is_marked and plan.steps else b""
    yield
    size = size_of((plan, names, key), shared=template) + len(text)
    yield
    return SharedPlan(plan, key=key, text=text, names=names, size=size, is_marked=is_marked)


class FilledPlans:
    """The whole plans of pools that share one, as far as they were asked for lately."""

    def __init__(self) -> None:
        """Prepare; nothing is known yet."""
        self._plans: Final[OrderedDict[tuple[SharedPlan, PoolValues, bool], Plan]] = OrderedDict()
        # To find the marks takes ten times as long as to fill them, and to remember their places as much as a plan.
        self._fillers: Final[OrderedDict[tuple[SharedPlan, bool], Filler]] = OrderedDict()

    def get(self, of: "PoolPlan", *, creating: bool) -> Plan:
        """Return the whole plan of a pool, without the members that only a new workload needs where none is created."""
        if not of.shared.is_marked:
            return of.shared.plan
        key = (of.shared, of.values, creating)
        plan = self._plans.get(key)
        if plan is None:
            members = self._filler_of(of.shared, creating=creating).fill(of.values)
            plan = self._plans[key] = msgspec.structs.replace(Plan(*members), digest=of.digest)
            if len(self._plans) > MAX_FILLED:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(key)
        return plan

    def _filler_of(self, shared: SharedPlan, *, creating: bool) -> Filler:
        key = (shared, creating)
        filler = self._fillers.get(key)
        if filler is None:
            filler = self._fillers[key] = shared.filler(creating=creating)
            if len(self._fillers) > MAX_FILLERS:
                self._fillers.popitem(last=False)
        else:
            self._fillers.move_to_end(key)
        return filler


class PoolPlan:
    """How one pool's workload is rendered: which plan it shares, and what is its own."""

    __slots__ = ("_filled", "_of_entries", "digest", "pool", "replicas", "shared", "undo_text")

    def __init__(self, shared: SharedPlan, values: PoolValues, *, filled: FilledPlans) -> None:
        """Fill in what is a pool's own."""
        self._filled: Final = filled
        self._of_entries: Final[EntryValues] = values.of_entries
        self.shared: Final = shared
        self.pool: Final = values.pool
        self.replicas: Final = values.replicas
        self.digest: Final = shared.digest(values)
        """As of `Plan`."""
        text = shared.plan.undo_text
        self.undo_text: Final = values.fill_text(text) if shared.is_marked else text
        """As of `Plan`."""

    @property
    def values(self) -> PoolValues:
        """The pool's own part of its plan."""
        return PoolValues(self.pool, self.replicas, self._of_entries)

    @property
    def size(self) -> int:
        """The bytes that it takes besides what it shares, estimated."""
        own = self._of_entries
        return _POOL_BYTES if own is NO_VALUES else _POOL_BYTES + _VALUES_BYTES + sum(map(getsizeof, own.texts))

    @property
    def applies(self) -> bool:
        """Whether an entry applies to the pool."""
        return bool(self.shared.plan.steps)

    @property
    def memory(self) -> Memory:
        """The annotations that a render leaves on a workload that nobody else has changed."""
        return Memory(self.digest, self.undo_text)

    @property
    def fast(self) -> PrecompiledPatch | None:
        """The patch of a workload that matches the template."""
        return self.shared.plan.fast

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for a user who writes a workload of the pool."""
        warnings = self.shared.plan.warnings
        return tuple(map(self.values.fill_text, warnings)) if self.shared.is_marked else warnings

    @property
    def full(self) -> Plan:
        """The plan with the pool's name in every place."""
        return self._filled.get(self, creating=True)

    @property
    def for_update(self) -> Plan:
        """The same without what only a new workload needs: ``create``, ``rendered`` and ``fast`` are not to be read."""
        return self._filled.get(self, creating=False)


def find_names(documents: tuple[JSON, ...]) -> _Names | None:
    """Return the names of elements that have the mark, and the others; None where an object's key has it.

    In the pool of that name a marked one may be another one of the template's. The order of an object's keys is part of
    the hash, so keys with a mark are not for sharing at all.
    """
    found: list[JSON] = []
    seen: set[int] = set()  # What the documents share is looked at once.
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
