"""Keeps the policies of overriders current, and says which workloads need no webhook; only the leader runs it.

The webhook is responsible for a subject until a dry run has shown that a policy acts, see
docs/decisions/0013-policies-beside-the-webhook.md.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.conditions import Condition
from fleethook.cluster.registration.match_conditions import Announcement, SubjectName
from fleethook.cluster.store import Store
from fleethook.engines.overrider.controller.subject_state import SubjectState
from fleethook.engines.overrider.policies.compiler import Probe, build_probes, compile_overrider
from fleethook.engines.overrider.policies.documents import count_places
from fleethook.engines.overrider.policies.mode import (
    MODE_ANNOTATION,
    Budget,
    Compilation,
    Decision,
    Mode,
    decide,
    describe,
    read_mode,
    refuse_for_want_of_room,
)
from fleethook.engines.overrider.policies.policy_client import POLICIES, PolicyClient, PolicyWatch, Version, path_of
from fleethook.engines.overrider.subject.bound_subjects import announced_edits
from fleethook.engines.overrider.subject.owner_index import Binding
from fleethook.engines.overrider.subject.subject_members import same_input
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import NODE_POOL, YURT_APP_OVERRIDER

_log: Final = logging.getLogger(__name__)

# kube-apiserver compiles changed policies once a second (policy_source.go, defaultRefreshInterval).
_ACTIVATION_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 10.0
# kube-apiserver stores an admitted edit within milliseconds. The limit is that of the exemptions (ConditionWriter).
_EDIT_SECONDS: Final = 10.0
_REFUSED: Final = frozenset({403, 404})


class Upkeep(NamedTuple):
    """The result of one pass."""

    conditions: tuple[Condition, ...] = ()
    again: float | None = None
    """Seconds until the next pass, None if only a change needs one."""


NO_UPKEEP: Final = Upkeep()


class _Compiled(NamedTuple):
    subject: JSONObject
    overrider: JSONObject
    pools: Mapping[str, JSONObject | None]
    result: Compilation
    probes: tuple[Probe, ...]

    def count_places(self) -> int:
        policies = (one for one in self.result.objects if one["kind"] == POLICIES.kind)
        return sum(count_places(one["metadata"]) for one in policies)


class _Applied(NamedTuple):
    """The objects of an overrider that this leader has applied."""

    uid: str
    digest: str = ""
    """The digest of their compilation, ``""`` if they have to be applied again."""
    versions: Sequence[Version] = ()


async def _return_at_once() -> None:
    """Read nothing."""


class PolicyKeeper:
    """Applies the policies of each subject's overrider, and removes those without one.

    A pass sends requests only if an input, a policy or a binding has changed since the last one.
    """

    def __init__(
        self,
        client: PolicyClient,
        watch: PolicyWatch,
        store: Store,
        *,
        default: Mode,
        limit: int,
        time: Callable[[], float],
        read_edits: Callable[[], Awaitable[None]] = _return_at_once,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare.

        Args:
            client: Sends the requests.
            watch: The policies in the cluster.
            store: The node pools and overriders, and the webhook configuration with the announced edits.
            default: The mode of overriders without the annotation.
            limit: The number of policies that may exist; further overriders stay with the webhook.
            time: Returns monotonic seconds.
            read_edits: Reads the webhook configuration into the store; raises APIError, UnreachableError.
            changed: Called when `exempt` changes.
        """
        self._client: Final = client
        self._watch: Final = watch
        self._store: Final = store
        self._default: Final = default
        self._budget: Final = Budget(limit)
        self._time: Final = time
        self._read_edits: Final = read_edits
        self._changed: Final = changed
        self._compiled: Final[dict[Binding, _Compiled]] = {}
        self._applied: Final[dict[Binding, _Applied]] = {}
        self._covered: Final[set[Binding]] = set()
        # Subjects that wait until policies can be read.
        self._deferred: Final[set[Binding]] = set()
        # The time at which this leader found an announced edit.
        self._edits: dict[Announcement, float] = {}
        self._requeue: Callable[[Binding], None] = lambda _binding: None

    async def run(self, requeue: Callable[[Binding], None]) -> None:
        """Watch the policies, and call ``requeue`` for each subject that needs another pass, until cancelled."""
        self._requeue = requeue
        await self._watch.run(changed=self._handle_change, listed=self._handle_list)

    def _handle_change(self, uid: str) -> None:
        """Queue the subject whose overrider has a uid, because one of its objects changed."""
        for binding, applied in self._applied.items():
            if applied.uid == uid:
                self._requeue(binding)
                return
        self._offer_room()

    def _handle_list(self) -> None:
        deferred = list(self._deferred)
        self._deferred.clear()
        for binding in deferred:
            self._requeue(binding)

    def _offer_room(self) -> None:
        """Queue the first subject that waits for room, if there is enough now. Its pass does the same."""
        if self._budget.is_full and (binding := self._budget.find_next(others=self._count_others())):
            self._requeue(binding)

    def _count_others(self, uid: str = "") -> int:
        """Return the places that policies of overriders without room take, except those of the one with ``uid``."""
        known = {uid, *(applied.uid for applied in self._applied.values())}
        return sum(count for one, count in self._watch.count_places().items() if one not in known)

    def exempt(self) -> set[SubjectName]:
        """Return the subjects whose workloads policies render."""
        return {SubjectName(one.namespace, one.group_kind.kind, one.name) for one in self._covered}

    async def sweep(self) -> None:
        """Delete the policies of deleted overriders and of overriders with mode ``webhook``."""
        try:
            found = await self._client.find()
            wanted = {
                overrider["metadata"].get("uid")
                for key in self._store.keys(YURT_APP_OVERRIDER)
                if (overrider := self._store.get(*key)) and read_mode(overrider, self._default)[0] is not Mode.WEBHOOK
            }
            await self._client.delete([one.path for one in found if one.uid not in wanted])
        except (APIError, UnreachableError) as error:
            if not (isinstance(error, APIError) and error.code in _REFUSED and self._default is not Mode.POLICY):
                _log.warning("cannot look for policies of deleted overriders: %s", error)

    async def keep(self, at: SubjectState) -> Upkeep:
        """Bring the policies of a subject up to date."""
        overrider, subject = at.effective, at.subject
        self._deferred.discard(at.binding)
        try:
            if overrider is None or subject is None or not self._may_use(at.binding, overrider):
                problem = await self._withdraw(at.binding)
                return Upkeep((), _RETRY_SECONDS if problem else None)
            return await self._keep(at, subject, overrider)
        except (APIError, UnreachableError) as error:
            return self._fail(at.binding, str(error), again=_RETRY_SECONDS)
        finally:
            self._offer_room()

    def _fail(self, binding: Binding, problem: str, *, again: float | None) -> Upkeep:
        self._cover(binding, is_active=False)
        decision = decide(Mode.AUTO, is_served=True, refusals=())
        return Upkeep((describe(decision, is_active=False, problem=problem),), again)

    def _may_use(self, binding: Binding, overrider: JSONObject) -> bool:
        """Return whether the overrider has, had or may get policies."""
        annotations = overrider["metadata"].get("annotations") or {}
        return self._default is not Mode.WEBHOOK or MODE_ANNOTATION in annotations or binding in self._applied

    async def _keep(self, at: SubjectState, subject: JSONObject, overrider: JSONObject) -> Upkeep:
        mode, ignored = read_mode(overrider, self._default)
        if mode is Mode.WEBHOOK:
            return await self._leave(at.binding, decide(mode, is_served=True, refusals=(), ignored=ignored))
        if problem := await self._watch.read():
            self._deferred.add(at.binding)
            return self._fail(at.binding, problem, again=None)
        if not self._watch.is_served:
            self._deferred.add(at.binding)
            return await self._leave(at.binding, decide(mode, is_served=False, refusals=(), ignored=ignored))
        return await self._keep_served(at, subject, overrider, ignored)

    async def _keep_served(self, at: SubjectState, subject: JSONObject, overrider: JSONObject, ignored: str) -> Upkeep:
        others = self._count_others(_uid_of(overrider))
        if not self._budget.enter(at.binding, others=others):
            return await self._leave(at.binding, refuse_for_want_of_room(self._budget.most), waits=True)
        found = await self._compile(at, subject, overrider)
        decision = decide(Mode.AUTO, is_served=True, refusals=found.result.refusals, ignored=ignored)
        if not decision.uses_policy or not found.result.objects:
            return await self._leave(at.binding, decision)
        if not self._budget.take(at.binding, found.count_places(), others=others):
            return await self._leave(at.binding, refuse_for_want_of_room(self._budget.most), waits=True)
        return await self._activate(at.binding, found, decision)

    async def _leave(self, binding: Binding, decision: Decision, *, waits: bool = False) -> Upkeep:
        """Leave the workloads of a subject to the webhook; without an entry that selects a pool, it has no work."""
        problem = await self._withdraw(binding, waits=waits)
        is_active = decision.uses_policy and not problem
        return Upkeep((describe(decision, is_active=is_active, problem=problem),), _RETRY_SECONDS if problem else None)

    async def _activate(self, binding: Binding, found: _Compiled, decision: Decision) -> Upkeep:
        """Apply the policies if necessary, and find out whether the apiserver uses them."""
        if not self._is_current(binding, found):
            # A replica may have announced an edit of which the watch does not know yet.
            await self._read_edits()
        wait = self._compute_edit_wait(binding)
        is_active = not wait and await self._apply(binding, found)
        self._cover(binding, is_active=is_active)
        again = None if is_active else max(wait, _ACTIVATION_SECONDS)
        return Upkeep((describe(decision, is_active=is_active),), again)

    def _is_current(self, binding: Binding, found: _Compiled) -> bool:
        """Return whether the apiserver has the objects as this leader has applied them."""
        applied = self._applied.get(binding)
        if applied is None or applied.uid != _uid_of(found.overrider) or applied.digest != found.result.digest:
            return False
        return self._watch.has(applied.versions)

    def _compute_edit_wait(self, binding: Binding) -> float:
        """Return the seconds to wait because a replica has just admitted an edit of the overrider, 0 for none.

        That replica has deleted the bindings, and the edit may not be stored yet. Until it is, the policies of the
        former version must not come back.
        """
        now = self._time()
        self._edits = {one: self._edits.get(one, now) for one in announced_edits(self._store)}
        subject = SubjectName(binding.namespace, binding.group_kind.kind, binding.name)
        ends = [at + _EDIT_SECONDS for one, at in self._edits.items() if one.subject == subject]
        return max(0.0, max(ends, default=now) - now)

    async def _compile(self, at: SubjectState, subject: JSONObject, overrider: JSONObject) -> _Compiled:
        pools = {name: self._store.get(at.binding.cluster, NODE_POOL, "", name) for name in at.pools}
        known = self._compiled.get(at.binding)
        if (
            known is not None
            and same_input(known.subject, subject)
            and same_input(known.overrider, overrider)
            and known.pools.keys() == pools.keys()
            and all(same_input(known.pools[name], pools[name]) for name in pools)
        ):
            return known
        # Thousands of pools take seconds, and reviews share this process.
        made = await asyncio.to_thread(_compile, at.binding, subject, overrider, pools)
        self._compiled[at.binding] = made
        if applied := self._applied.get(at.binding):
            # An edit has deleted the bindings, even if the objects did not change.
            self._applied[at.binding] = _Applied(applied.uid)
            self._cover(at.binding, is_active=False)
        return made

    async def _apply(self, binding: Binding, found: _Compiled) -> bool:
        """Apply the objects, and return whether the apiserver uses them."""
        uid = _uid_of(found.overrider)
        former = self._applied.get(binding)
        if former is not None and former.uid != uid:
            await self._client.delete_all(former.uid)
        if not self._is_current(binding, found):
            self._cover(binding, is_active=False)
            self._applied[binding] = _Applied(uid)  # If a request fails, some objects exist.
            objects = found.result.objects
            answers = await self._client.apply(objects)
            learned = [self._watch.learn(one["kind"], text) for one, text in zip(objects, answers, strict=True)]
            self._applied[binding] = _Applied(uid, found.result.digest, learned)
        if binding in self._covered:
            return True
        for probe in found.probes:
            if not probe.is_rendered(await self._client.dry_run(probe.plural, probe.workload)):
                return False
        keep = {path_of(one) for one in found.result.objects}
        await self._client.delete_all(uid, keep=keep)
        return True

    def _cover(self, binding: Binding, *, is_active: bool) -> None:
        if is_active != (binding in self._covered):
            (self._covered.add if is_active else self._covered.discard)(binding)
            self._changed()

    async def _withdraw(self, binding: Binding, *, waits: bool = False) -> str:
        """End the exemption and delete the policies; return the problem, ``""`` for none.

        Args:
            binding: The subject.
            waits: Whether the subject waits for room.
        """
        self._cover(binding, is_active=False)
        self._compiled.pop(binding, None)
        applied = self._applied.get(binding)
        try:
            if applied is not None:
                await self._client.delete_all(applied.uid)
        except (APIError, UnreachableError) as error:
            return f"the policies cannot be deleted: {error}"
        self._applied.pop(binding, None)
        if not waits:
            self._budget.give_back(binding)
        return ""


def _uid_of(overrider: JSONObject) -> str:
    return str(overrider["metadata"].get("uid") or "")


def _compile(
    binding: Binding, subject: JSONObject, overrider: JSONObject, pools: Mapping[str, JSONObject | None]
) -> _Compiled:
    result = compile_overrider(binding.group_kind, subject, overrider, pools=pools)
    probes = build_probes(
        result.objects, group_kind=binding.group_kind, subject=subject, overrider=overrider, pools=pools
    )
    return _Compiled(subject, overrider, pools, result, tuple(probes))
