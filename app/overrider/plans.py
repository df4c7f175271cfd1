"""Plans, kept as long as the objects that they were compiled from stay the same.

All pools of a subject that differ by name and replicas alone share a plan. A pool adds some hundred bytes to that: its
hash, and which plan it has.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, NamedTuple

import msgspec

from app.model.gvk import GroupKind
from app.model.json import JSON, JSONObject, as_object
from app.model.openyurt import NODE_POOL, NODEPOOL_TOKEN, TWEAK_POOL_TOKEN, YURT_APP_DAEMON, YURT_APP_SET
from app.overrider.fast_path import PrecompiledPatch
from app.overrider.plan import Plan, compile_plan, digest_text, hash_text
from app.overrider.pool_mark import (
    POOL_MARK,
    REPLICAS_MARK,
    Filler,
    has_mark,
    is_safe_name,
    mark_name,
)
from app.overrider.pool_template import PoolSettings, SubjectError, workload_prefix
from app.overrider.pools import PoolSelector, topology
from app.overrider.steps import RenderError
from app.overrider.subject_parts import SetSelections, depends_on_node_pools, is_v1beta1, tweaks_of
from app.overrider.template import lacks_pool
from app.overrider.undo import Memory
from app.store import StoreView

DEFAULT_CACHE_BYTES: Final = 256 << 20
# Measured (`make bench ARGS="--only scale"`): a shared plan takes some three times the text of its rendered workload.
_PLAN_BYTES_PER_TEXT_BYTE: Final = 3
_POOL_BYTES: Final = 700
_SUBJECT_BYTES: Final = 2_000
MAX_FILLED: Final = 64


_NO_NAMES: Final[tuple[frozenset[str], frozenset[str]]] = (frozenset(), frozenset())


class SharedPlan:
    """A plan of all pools of a subject that differ by name and replicas alone."""

    __slots__ = ("_filled", "_filler", "_text", "is_marked", "names", "plan", "size")

    def __init__(self, plan: Plan, *, kind: str, pool: str) -> None:
        """Keep a plan.

        Args:
            plan: Compiled for the mark, or for the one pool that it is for.
            kind: Deployment or StatefulSet.
            pool: The name that it was compiled for.
        """
        self.plan: Final = plan
        self.is_marked: Final = pool == POOL_MARK
        self.names: Final = _find_names((plan.bare, plan.rendered)) if self.is_marked else _NO_NAMES
        self._text: Final = digest_text(kind, pool, plan.rendered, plan.undo_text) if plan.steps else b""
        self._filler: Final = Filler()
        self._filled: Final[OrderedDict[str, Plan]] = OrderedDict()
        self.size: Final = _PLAN_BYTES_PER_TEXT_BYTE * (len(self._text) or len(msgspec.json.encode(plan.bare)))

    def confuses(self, pool: str) -> bool:
        """Return whether an element that is named after its pool has, in ``pool``, the name of another one."""
        marked, others = self.names or _NO_NAMES
        return any(name.replace(POOL_MARK, pool) in others for name in marked)

    def digest(self, pool: str, replicas: int | None) -> str:
        """Return the hash for a pool."""
        if not self._text or not self.is_marked:
            return self.plan.digest
        text = self._text.replace(POOL_MARK.encode(), pool.encode())
        return hash_text(text.replace(str(REPLICAS_MARK).encode(), str(replicas).encode()))

    def fill(self, pool: str, replicas: int | None, *, digest: str) -> Plan:
        """Return the whole plan of a pool; those that were asked for last are kept."""
        if not self.is_marked:
            return self.plan
        plan = self._filled.get(pool)
        if plan is None:
            parts = msgspec.structs.astuple(self.plan)
            filled = self._filler.fill(parts, pool, replicas)
            plan = msgspec.structs.replace(Plan(*filled), digest=digest)
            if len(self._filled) >= MAX_FILLED:
                self._filled.popitem(last=False)
            self._filled[pool] = plan
        return plan


class PoolPlan:
    """How one pool's workload is rendered: which plan it shares, and what is its own."""

    __slots__ = ("digest", "pool", "replicas", "shared", "undo_text")

    def __init__(self, shared: SharedPlan, pool: str, replicas: int | None) -> None:
        """Fill in a pool's name and replicas."""
        self.shared: Final = shared
        self.pool: Final = pool
        self.replicas: Final = replicas
        self.digest: Final = shared.digest(pool, replicas)
        """As of `Plan`."""
        text = shared.plan.undo_text
        self.undo_text: Final = text.replace(POOL_MARK, pool) if shared.is_marked and POOL_MARK in text else text
        """As of `Plan`."""

    @property
    def applies(self) -> bool:
        """Whether an entry applies to the pool."""
        return bool(self.shared.plan.steps)

    @property
    def memory(self) -> Memory:
        """What a render leaves on a workload that nobody else has changed."""
        return Memory(self.digest, self.undo_text)

    @property
    def fast(self) -> PrecompiledPatch | None:
        """The patch of a workload that matches the template."""
        return self.shared.plan.fast

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to tell whoever writes a workload of the pool."""
        warnings = self.shared.plan.warnings
        return tuple(text.replace(POOL_MARK, self.pool) for text in warnings) if self.shared.is_marked else warnings

    @property
    def full(self) -> Plan:
        """The plan with the pool's name in every place."""
        return self.shared.fill(self.pool, self.replicas, digest=self.digest)


Outcome = PoolPlan | SubjectError | RenderError


class _Configuration(NamedTuple):
    """What is particular about a pool, in the form that pools which share a plan have in common."""

    key: Hashable
    pool: str
    """The name to compile for: the mark, or the pool's own."""
    applying: tuple[int, ...]
    """The numbers of the entries that apply."""
    config: JSONObject | None
    node_pool: JSONObject | None
    replicas: int | None
    tweaks: tuple[int, ...]
    """The numbers of the tweaks that a YurtAppSet v1beta1 has for the pool."""


class SubjectPlans:
    """The plans of one subject with one overrider."""

    def __init__(self, group_kind: GroupKind, subject: JSONObject, overrider: JSONObject | None) -> None:
        """Prepare; plans are compiled when they are asked for.

        Args:
            group_kind: YurtAppSet or YurtAppDaemon.
            subject: The subject as stored.
            overrider: The overrider in effect, or None for the bare template.
        """
        self.inputs = (subject, overrider)
        self.size = _SUBJECT_BYTES
        self._group_kind: Final = group_kind
        entries = as_object(overrider or {}).get("entries")
        listed = entries if isinstance(entries, list) else []
        self._selectors: Final = [PoolSelector(as_object(entry).get("pools")) for entry in listed]
        self._mark_taken: Final = has_mark((subject.get("spec"), entries))
        text = msgspec.json.encode((entries, tweaks_of(subject)))
        self._says_pool: Final = NODEPOOL_TOKEN.encode() in text or TWEAK_POOL_TOKEN.encode() in text
        self._selections: Final = SetSelections(subject) if is_v1beta1(subject) else None
        with_topology = group_kind == YURT_APP_SET and self._selections is None
        self._configs: Final = topology(subject.get("spec")) if with_topology else {}
        self._plans: Final[dict[Hashable, SharedPlan | SubjectError | RenderError | object]] = {}
        self._pools: Final[dict[tuple[str, str], tuple[JSONObject | None, Outcome]]] = {}

    def plan(self, kind: str, pool: str, node_pool: JSONObject | None) -> PoolPlan:
        """Return the plan for the subject's workload of ``kind`` in ``pool``.

        Args:
            kind: Deployment or StatefulSet.
            pool: The pool's name.
            node_pool: The NodePool object, where it matters and is known.

        Raises:
            SubjectError: Nothing can be built from the subject.
            RenderError: An entry does not fit the template, or is broken in itself.
        """
        known = self._pools.get((kind, pool))
        if known is not None and (known[0] is node_pool or same_input(known[0], node_pool)):
            return _result(known[1])
        outcome = self._compile(kind, pool, node_pool)
        if known is None:
            self.size += _POOL_BYTES
        self._pools[kind, pool] = (node_pool, outcome)
        return _result(outcome)

    def _compile(self, kind: str, pool: str, node_pool: JSONObject | None) -> Outcome:
        if not self._has_pool(pool, node_pool):
            return SubjectError(lacks_pool(self._group_kind, self.inputs[0], pool))
        of = self._configuration(kind, pool, node_pool)
        shared = self._plans.get(of.key) or self._share(of, kind)
        if shared is NAMED_AFTER_POOL or (isinstance(shared, SharedPlan) and shared.confuses(pool)):
            of = of._replace(key=(kind, pool), pool=pool, config=self._configs.get(pool))
            shared = self._plans.get(of.key) or self._share(of, kind)
        if isinstance(shared, SharedPlan):
            return PoolPlan(shared, pool, of.replicas)
        if isinstance(shared, RenderError):
            return RenderError(shared.field, shared.reason.replace(POOL_MARK, pool))
        assert isinstance(shared, SubjectError)
        return SubjectError(str(shared).replace(POOL_MARK, pool))

    def _has_pool(self, pool: str, node_pool: JSONObject | None) -> bool:
        if self._selections is not None:
            return self._selections.selects(pool, node_pool)
        return self._group_kind != YURT_APP_SET or pool in self._configs

    def _share(self, of: _Configuration, kind: str) -> "SharedPlan | SubjectError | RenderError | object":
        subject, overrider = self.inputs
        shared: SharedPlan | SubjectError | RenderError | object
        try:
            plan = compile_plan(
                self._group_kind,
                subject,
                overrider,
                kind=kind,
                pool=of.pool,
                node_pool=of.node_pool,
                settings=PoolSettings(of.config, of.tweaks),
                applying=of.applying,
            )
            shared = SharedPlan(plan, kind=kind, pool=of.pool)
            # A tweak may name an element of the template after the pool, which an entry then finds in that pool alone.
            in_template = plan.of_v1beta1 and plan.steps and of.pool == POOL_MARK and _find_names((plan.bare,))
            if shared.names is None or (in_template and in_template[0]):
                shared = NAMED_AFTER_POOL
        except (SubjectError, RenderError) as error:
            # An entry that names the pool may fit in another pool, and says its name in the reason.
            named = of.pool == POOL_MARK and self._says_pool
            shared = NAMED_AFTER_POOL if named else error.with_traceback(None)
        self._plans[of.key] = shared
        self.size += shared.size if isinstance(shared, SharedPlan) else _POOL_BYTES
        return shared

    def _configuration(self, kind: str, pool: str, node_pool: JSONObject | None) -> _Configuration:
        applying = tuple(number for number, selector in enumerate(self._selectors) if selector.selects(pool))
        config = self._configs.get(pool)
        taints = as_object(as_object(node_pool or {}).get("spec")).get("taints")
        replicas = None if config is None else config.get("replicas")
        tweaks = () if self._selections is None else self._selections.tweaks(pool, node_pool)
        # Only a YurtAppDaemon's workloads tolerate the taints of their pools.
        taints = taints if self._group_kind == YURT_APP_DAEMON else None
        alone = _Configuration((kind, pool), pool, applying, config, node_pool, replicas, tweaks)
        name = self.inputs[0]["metadata"]["name"]
        if not is_safe_name(pool) or workload_prefix(name, pool) != f"{name}-{pool}-" or self._mark_taken:
            return alone
        if config is not None:
            placement: JSONObject = {one: mark_name(config[one], pool) for one in _PLACEMENT if one in config}
            config = {**config, **placement, "name": POOL_MARK}
            if replicas is not None:
                config["replicas"] = REPLICAS_MARK
        key = (kind, applying, tweaks, msgspec.json.encode((config, taints)))
        return _Configuration(key, POOL_MARK, applying, config, node_pool, replicas, tweaks)


_PLACEMENT: Final = ("nodeSelectorTerm", "tolerations")
NAMED_AFTER_POOL: Final = object()
"""A member or an element is named after the pool. In one pool that may be another one of the template's."""


def _find_names(documents: tuple[JSON, ...]) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the names of elements that have the mark, and the others; None where an object's key has it.

    In the pool of that name a marked one may be another one of the template's. The order of an object's keys is part of
    the hash, so keys with a mark are not for sharing at all.
    """
    found: set[str] = set()
    pending = [*documents]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if any(POOL_MARK in name for name in value):
                return None
            pending += value.values()
        elif isinstance(value, list):
            pending += value
            found.update(name for element in value for name in _names(element))
    marked = frozenset(name for name in found if POOL_MARK in name)
    return marked, frozenset(found - marked) if marked else frozenset()


def _names(element: JSON) -> list[str]:
    """Return the members of an element that may identify it."""
    members = (element.get(name) for name in _IDENTIFYING) if isinstance(element, dict) else ()
    return [member for member in members if isinstance(member, str)]


_IDENTIFYING: Final = ("name", "mountPath", "devicePath", "ip", "key", "value", "topologyKey")


class PlanCache:
    """Compiles a plan when it is first asked for and again when one of its inputs was replaced.

    The store never changes an object in place, so identity of the inputs is nearly all there is to check; nothing has
    to be invalidated and nothing stale can be answered. An input that was replaced by one that differs in its status
    only (every Pod that becomes ready does that to a YurtAppSet) keeps its plans.

    Attributes:
        size: The bytes that all plans take, estimated.
        evicted: How many subjects' plans were dropped for room.
    """

    def __init__(self, *, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        """Prepare an empty cache; the plans of the subjects that were asked for least recently go first."""
        self.size = 0
        self.evicted = 0
        self._max_bytes: Final = max_bytes
        self._subjects: Final[OrderedDict[tuple[str, str, str, str], SubjectPlans]] = OrderedDict()

    def plan(
        self,
        group_kind: GroupKind,
        subject: JSONObject,
        overrider: JSONObject | None,
        *,
        kind: str,
        pool: str,
        cluster: str,
        store: StoreView,
    ) -> PoolPlan:
        """Return the plan for a subject's workload of ``kind`` in ``pool``.

        Raises:
            SubjectError: Nothing can be built from the subject.
            RenderError: An entry does not fit the template, or is broken in itself.
        """
        depends = depends_on_node_pools(group_kind, subject)
        node_pool = store.get(cluster, NODE_POOL, "", pool) if depends else None
        plans = self.of_subject(group_kind, subject, overrider, cluster=cluster)
        before = plans.size
        try:
            return plans.plan(kind, pool, node_pool)
        finally:
            if plans.size != before:
                self.size += plans.size - before
                self._make_room()

    def of_subject(
        self, group_kind: GroupKind, subject: JSONObject, overrider: JSONObject | None, *, cluster: str
    ) -> SubjectPlans:
        """Return the plans of a subject with an overrider."""
        metadata = subject["metadata"]
        key = (cluster, metadata.get("namespace") or "", group_kind.kind, metadata["name"])
        plans = self._subjects.get(key)
        if plans is not None:
            known_subject, known_overrider = plans.inputs
            if (known_subject is subject and known_overrider is overrider) or (
                same_input(known_subject, subject) and same_input(known_overrider, overrider)
            ):
                plans.inputs = (subject, overrider)
                self._subjects.move_to_end(key)
                return plans
            self.size -= plans.size
        plans = self._subjects[key] = SubjectPlans(group_kind, subject, overrider)
        self._subjects.move_to_end(key)
        self.size += plans.size
        return plans

    def _make_room(self) -> None:
        while self.size > self._max_bytes and len(self._subjects) > 1:
            _, oldest = self._subjects.popitem(last=False)
            self.size -= oldest.size
            self.evicted += 1


_NO_INPUT: Final = frozenset({"metadata", "status"})


def same_input(known: JSONObject | None, now: JSONObject | None) -> bool:
    """Return whether two versions of a subject, overrider or node pool say the same, their status aside."""
    if known is now:
        return True
    if known is None or now is None or _identity(known) != _identity(now):
        return False
    return all(known.get(name) == now.get(name) for name in (known.keys() | now.keys()) - _NO_INPUT)


def _identity(document: JSONObject) -> tuple[JSON, ...]:
    metadata = document["metadata"]
    return tuple(metadata.get(name) for name in ("name", "namespace", "uid", "labels", "annotations"))


def _result(outcome: Outcome) -> PoolPlan:
    if isinstance(outcome, PoolPlan):
        return outcome
    # Without the frames of earlier raises, which would otherwise pile up on the one kept exception.
    raise outcome.with_traceback(None)
