"""Compiles the plans of a subject, long ones in a thread, and shares them among pools.

Pools of a subject share one plan if the same entries apply to them, and they differ only by their names and replicas.
The plan is compiled with marks in place of these values.
"""

import re
from collections.abc import Callable, Hashable
from functools import cached_property, partial
from typing import Final, NamedTuple

import msgspec

from fleethook.engines.overrider.entries.entry_selection import EntrySelection
from fleethook.engines.overrider.entries.steps_and_limits import (
    NODEPOOL_TOKEN,
    TWEAK_POOL_TOKEN,
    RenderError,
    compile_steps,
)
from fleethook.engines.overrider.plan.plan_and_digest import (
    BarePlan,
    Plan,
    compile_bare,
    compile_plan,
    digest_text,
    hash_text,
)
from fleethook.engines.overrider.plan.precompiled_patch import PrecompiledPatch, compile_patch
from fleethook.engines.overrider.rules.missing_pools import lacks_pool
from fleethook.engines.overrider.subject.subject_and_pools import (
    SetSelections,
    depends_on_node_pools,
    is_v1beta1,
    subject_name,
    topology,
    tweaks_of,
)
from fleethook.engines.overrider.template.pool_template_and_placement import (
    PoolSettings,
    SubjectError,
    check_pool_replicas,
)
from fleethook.engines.overrider.template.template_builder import templates_of, workload_prefix
from fleethook.engines.overrider.template.tweaks import count_selections, decode_tweaks
from fleethook.model.formats.field_errors import MAX_LABEL, MAX_SUBDOMAIN
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_list, as_object, count_values
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from fleethook.workload_schema.pool_value_marks import POOL_MARK, REPLICAS_MARK, PoolValues, has_mark, mark_name

_Names = tuple[frozenset[str], frozenset[str]]
"""The names of elements with the mark, and the other names."""
_NO_NAMES: Final[_Names] = (frozenset(), frozenset())
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
"""The names of pools that need no escaping in JSON, so that they can be filled into encoded text."""
# A compilation takes some 4 µs for each value of the template, so 12 ms, and as long as 8 values for each value of the
# entries.
_MAX_VALUES_ON_LOOP: Final = 3_000
_ENTRY_VALUE: Final = 8


class LongCompilation(NamedTuple):
    """A compilation that would block the event loop. Request the plan again after it."""

    run: Callable[[], None]
    """Compiles the plan; may run in a thread."""


_PLACEMENT: Final = ("nodeSelectorTerm", "tolerations")


def encode_settings(config: JSONObject | None, taints: JSON) -> bytes:
    """Return the settings of a pool as JSON, equal for pools whose `mark_settings` are equal."""
    return msgspec.json.encode((mark_settings(config), taints))


def mark_settings(config: JSONObject | None) -> JSONObject | None:
    """Return the settings of a pool with marks in place of its own values."""
    if config is None:
        return None
    placing: JSONObject = {one: mark_name(config[one], config["name"]) for one in _PLACEMENT if one in config}
    marked = {**config, **placing, "name": POOL_MARK}
    return marked if config.get("replicas") is None else {**marked, "replicas": REPLICAS_MARK}


class _Configuration(NamedTuple):
    """The settings of a pool, with marks in place of its own values; equal for pools that share a plan."""

    key: Hashable
    pool: str
    """The name to compile for: the mark, or the name of the pool."""
    entries: tuple[int, ...]
    """The numbers of the entries that apply."""
    config: JSONObject | None
    """The settings of the pool as the subject has them."""
    node_pool: JSONObject | None
    replicas: int | None
    tweaks: tuple[int, ...]
    """The numbers of the tweaks of a YurtAppSet v1beta1 that apply to the pool."""
    placement: bytes
    """The pool's settings as text, with the mark for its name; empty if the pool shares no plan."""


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
        self.names: Final = _find_names((plan.create.bare, plan.create.rendered)) if self.is_marked else _NO_NAMES
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


_Shared = SharedPlan | SubjectError | RenderError | object
"""The plan or the error that pools of one configuration share; `_NAMED_AFTER_POOL` if they share none."""
_NAMED_AFTER_POOL: Final = object()
"""A member or an element is named after the pool. In some pool, the template may have another element of that name."""


class PlanCompiler:
    """Compiles the plans of one subject with one overrider, one for all pools that can share it.

    Attributes:
        subject: The subject.
        plans: The plans and errors by configuration.
        compiled: Number of compiled plans.
        depends_on_node_pools: Whether the plans depend on NodePools.
    """

    def __init__(
        self, group_kind: GroupKind, subject: JSONObject, overrider: JSONObject | None, *, identity: JSON
    ) -> None:
        """Index the subject and the overrider; arguments as of `SubjectPlans`, with the identity of the subject."""
        self.subject = subject
        self.plans: Final[dict[Hashable, _Shared]] = {}
        self.compiled = 0
        self._group_kind: Final = group_kind
        entries = as_object(overrider or {}).get("entries")
        self._entries: Final = entries
        self._selection: Final = EntrySelection(entries)
        self.depends_on_node_pools: Final = self._selection.uses_labels or depends_on_node_pools(group_kind, subject)
        self._has_mark: Final = has_mark((identity, subject.get("spec"), entries))
        text = msgspec.json.encode((entries, tweaks_of(subject)))
        self._has_pool_token: Final = NODEPOOL_TOKEN.encode() in text or TWEAK_POOL_TOKEN.encode() in text
        self._selections: Final = SetSelections(subject) if is_v1beta1(subject) else None
        with_topology = group_kind == YURT_APP_SET and self._selections is None
        self._configs: Final = topology(subject.get("spec")) if with_topology else {}
        self._bare: tuple[Hashable, BarePlan] | None = None

    def find(
        self, kind: str, pool: str, node_pool: JSONObject | None, *, kept_tweaks: str
    ) -> tuple[SharedPlan, PoolValues] | LongCompilation:
        """Return the plan of a pool and the values for its marks; arguments and errors as of `SubjectPlans.plan`.

        If the compilation would block the event loop, this function returns it.
        """
        if not self._has_pool(pool, node_pool):
            raise SubjectError(lacks_pool(self._group_kind, self.subject, pool))
        if config := self._configs.get(pool):
            check_pool_replicas(subject_name(self._group_kind, self.subject), config)
        of = self._configure(kind, pool, node_pool, kept_tweaks)
        shared = self._get_shared(of, kind)
        if shared is _NAMED_AFTER_POOL or (isinstance(shared, SharedPlan) and shared.confuses(pool)):
            shared = self._get_shared(of._replace(key=(pool, of.key), pool=pool), kind)
        values = PoolValues(pool, of.replicas)
        if isinstance(shared, LongCompilation):
            return shared
        if isinstance(shared, SharedPlan):
            return shared, values
        if isinstance(shared, RenderError):
            raise RenderError(values.fill_text(shared.field), values.fill_text(shared.reason))
        assert isinstance(shared, SubjectError)
        raise SubjectError(values.fill_text(str(shared)))

    def _has_pool(self, pool: str, node_pool: JSONObject | None) -> bool:
        if self._selections is not None:
            return self._selections.selects(pool, node_pool)
        return self._group_kind != YURT_APP_SET or pool in self._configs

    def _get_shared(self, of: _Configuration, kind: str) -> _Shared | LongCompilation:
        """Return the plan or the error of a configuration, or its compilation if that would block the event loop."""
        known = self.plans.get(of.key)
        if known is not None:
            return known
        if self._is_long(of):
            return LongCompilation(partial(self._compile, of, kind))
        self._compile(of, kind)
        return self.plans[of.key]

    def _is_long(self, of: _Configuration) -> bool:
        subject = self.subject
        parts = [templates_of(subject), tweaks_of(subject), of.config]
        values = count_values(parts, limit=_MAX_VALUES_ON_LOOP) * count_selections(subject)
        entries = [as_list(self._entries)[number] for number in of.entries]
        return values + _ENTRY_VALUE * count_values(entries, limit=_MAX_VALUES_ON_LOOP) > _MAX_VALUES_ON_LOOP

    def _compile(self, of: _Configuration, kind: str) -> None:
        """Compile the plan of a configuration, which another caller may have compiled in the meantime."""
        if of.key not in self.plans:
            self.plans[of.key] = self._compile_shared(of, kind)
            self.compiled += 1

    def _compile_shared(self, of: _Configuration, kind: str) -> _Shared:
        try:
            bare = self._compile_bare(of, kind)
            steps = compile_steps(self._entries, of.pool, applying=of.entries)
            plan = compile_plan(steps, self.subject, bare=bare, kind=kind, pool=of.pool)
            shared = SharedPlan(plan, kind=kind, pool=of.pool)
            # A tweak may name an element of the template after the pool. Then entries find it only in that pool.
            in_template = plan.of_v1beta1 and plan.steps and of.pool == POOL_MARK and _find_names((plan.create.bare,))
        except (SubjectError, RenderError) as error:
            # An entry that names the pool may fit in another pool, and the error contains the name.
            is_named = of.pool == POOL_MARK and self._has_pool_token
            return _NAMED_AFTER_POOL if is_named else error.with_traceback(None)
        return _NAMED_AFTER_POOL if shared.names is None or (in_template and in_template[0]) else shared

    def _compile_bare(self, of: _Configuration, kind: str) -> BarePlan:
        """Return the bare plan of a configuration; the last one is cached."""
        key, known = (kind, of.pool, of.tweaks, of.placement), self._bare
        if known is not None and known[0] == key and of.placement:
            return known[1]
        config = mark_settings(of.config) if of.pool == POOL_MARK else of.config
        settings = PoolSettings(config, of.tweaks)
        bare = compile_bare(
            self._group_kind, self.subject, kind=kind, pool=of.pool, node_pool=of.node_pool, settings=settings
        )
        self._bare = (key, bare)
        return bare

    def _configure(self, kind: str, pool: str, node_pool: JSONObject | None, kept_tweaks: str) -> _Configuration:
        config = self._configs.get(pool)
        taints = as_object(as_object(node_pool or {}).get("spec")).get("taints")
        replicas = None if config is None else config.get("replicas")
        tweaks = decode_tweaks(self.subject, kept_tweaks)
        if tweaks is None:
            tweaks = () if self._selections is None else self._selections.tweaks(pool, node_pool)
        # Only workloads of a YurtAppDaemon tolerate the taints of their pools.
        taints = taints if self._group_kind == YURT_APP_DAEMON else None
        name, entries = self.subject["metadata"]["name"], self._selection.applying(pool, node_pool)
        if not _SAFE_NAME.fullmatch(pool) or workload_prefix(name, pool) != f"{name}-{pool}-" or self._has_mark:
            key: Hashable = (kind, pool, tweaks, entries, msgspec.json.encode(taints))
            return _Configuration(key, pool, entries, config, node_pool, replicas, tweaks, b"")
        placement = encode_settings(config, taints)
        key = (kind, entries, tweaks, placement)
        return _Configuration(key, POOL_MARK, entries, config, node_pool, replicas, tweaks, placement)


def _find_longest_name(rendered: JSON) -> int:
    """Return the length of the longest pool name for which every label of a rendered workload is valid."""
    workload = as_object(rendered)
    template = as_object(as_object(workload.get("spec")).get("template"))
    labels = [as_object(as_object(one.get("metadata")).get("labels")) for one in (workload, template)]
    labels.append(as_object(as_object(template.get("spec")).get("nodeSelector")))
    values = [value for label in labels for value in label.values() if isinstance(value, str) and POOL_MARK in value]
    room = [(MAX_LABEL - len(value.replace(POOL_MARK, ""))) // value.count(POOL_MARK) for value in values]
    return min(room, default=MAX_SUBDOMAIN)


def _find_names(documents: tuple[JSON, ...]) -> _Names | None:
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
