"""Keeps the policies of overriders current, and says which workloads need no webhook; only the leader runs it.

The webhook is responsible for a subject until a dry run has shown that a policy acts, see
docs/decisions/0013-policies-beside-the-webhook.md.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from app.control.conditions import Condition
from app.kube.errors import APIError, UnreachableError
from app.model.json import JSONObject
from app.model.openyurt import NODE_POOL, YURT_APP_OVERRIDER
from app.overrider.binding import Binding
from app.overrider.bound_subjects import announced_edits
from app.overrider.plan_inputs import same_input
from app.overrider.policies.compilation import Compilation
from app.overrider.policies.compiler import compile_overrider
from app.overrider.policies.mode import MODE_ANNOTATION, Mode, decide, describe, read_mode
from app.overrider.policies.probe import Probe, build_probes
from app.overrider.policy_client import PolicyClient, path_of
from app.overrider.subject_state import SubjectState
from app.registration.announcements import Announcement
from app.registration.match_conditions import SubjectName
from app.store import Store

_log: Final = logging.getLogger(__name__)

# kube-apiserver compiles changed policies once a second (policy_source.go, defaultRefreshInterval).
_ACTIVATION_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 10.0
# Subjects share the answer, so that a fleet does not ask for each of them.
_SERVED_SECONDS: Final = 10.0
# kube-apiserver stores an admitted edit within milliseconds. The limit is that of the exemptions (ConditionWriter).
_EDIT_SECONDS: Final = 10.0
# A pass later than this applies the objects again, in case an administrator changed or deleted one.
_APPLY_SECONDS: Final = 30.0
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


class PolicyKeeper:
    """Applies the policies of each subject's overrider, and removes those without one."""

    def __init__(
        self,
        client: PolicyClient,
        store: Store,
        *,
        default: Mode,
        time: Callable[[], float],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare.

        Args:
            client: Sends the requests.
            store: The node pools and overriders.
            default: The mode of overriders without the annotation.
            time: Returns monotonic seconds.
            changed: Called when `exempt` changes.
        """
        self._client: Final = client
        self._store: Final = store
        self._default: Final = default
        self._time: Final = time
        self._changed: Final = changed
        self._compiled: Final[dict[Binding, _Compiled]] = {}
        # The uid of the overrider whose objects exist, and the time at which they were applied last.
        self._applied: Final[dict[Binding, tuple[str, float]]] = {}
        self._covered: Final[set[Binding]] = set()
        # The time at which this leader found an announced edit.
        self._edits: dict[Announcement, float] = {}
        self._is_served = False
        self._asked_at = float("-inf")

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
        if overrider is None or subject is None or not self._may_use(at.binding, overrider):
            problem = await self._withdraw(at.binding)
            return Upkeep((), _RETRY_SECONDS if problem else None)
        try:
            return await self._keep(at, subject, overrider)
        except (APIError, UnreachableError) as error:
            self._cover(at.binding, is_active=False)
            decision = decide(Mode.AUTO, is_served=True, refusals=())
            return Upkeep((describe(decision, is_active=False, problem=str(error)),), _RETRY_SECONDS)

    def _may_use(self, binding: Binding, overrider: JSONObject) -> bool:
        """Return whether the overrider has, had or may get policies."""
        annotations = overrider["metadata"].get("annotations") or {}
        return self._default is not Mode.WEBHOOK or MODE_ANNOTATION in annotations or binding in self._applied

    async def _keep(self, at: SubjectState, subject: JSONObject, overrider: JSONObject) -> Upkeep:
        mode, ignored = read_mode(overrider, self._default)
        is_served = mode is not Mode.WEBHOOK and await self._ask_whether_served()
        found = await self._compile(at, subject, overrider) if is_served else None
        decision = decide(mode, is_served=is_served, refusals=found.result.refusals if found else (), ignored=ignored)
        if found is None or not decision.uses_policy or not found.result.objects:
            problem = await self._withdraw(at.binding)
            active = decision.uses_policy and not problem  # No entry selects a pool, so there is nothing to apply.
            # With `auto`, the next resync asks again: an older apiserver must not cost a pass every few seconds.
            again = _RETRY_SECONDS if problem or (mode is Mode.POLICY and not is_served) else None
            return Upkeep((describe(decision, is_active=active, problem=problem),), again)
        wait = self._compute_edit_wait(at.binding)
        is_active = not wait and await self._apply(at.binding, found)
        self._cover(at.binding, is_active=is_active)
        again = _APPLY_SECONDS if is_active else max(wait, _ACTIVATION_SECONDS)
        return Upkeep((describe(decision, is_active=is_active),), again)

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

    async def _ask_whether_served(self) -> bool:
        if self._time() - self._asked_at >= _SERVED_SECONDS:
            self._is_served = await self._client.is_served()
            self._asked_at = self._time()
        return self._is_served

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
        if at.binding in self._applied:
            # An edit has deleted the bindings, even if the objects did not change.
            self._applied[at.binding] = (self._applied[at.binding][0], float("-inf"))
            self._cover(at.binding, is_active=False)
        return made

    async def _apply(self, binding: Binding, found: _Compiled) -> bool:
        """Apply the objects, and return whether the apiserver uses them."""
        uid, now = str(found.overrider["metadata"].get("uid") or ""), self._time()
        former, applied_at = self._applied.get(binding, ("", float("-inf")))
        if former and former != uid:
            await self._client.delete_all(former)
        if former != uid or now - applied_at >= _APPLY_SECONDS:
            self._applied[binding] = (uid, float("-inf"))
            await self._client.apply(found.result.objects)
            self._applied[binding] = (uid, now)
        for probe in found.probes:
            if not probe.is_rendered(await self._client.dry_run(probe.plural, probe.workload)):
                return False
        if binding not in self._covered:
            keep = {path_of(one) for one in found.result.objects}
            await self._client.delete_all(uid, keep=keep)
        return True

    def _cover(self, binding: Binding, *, is_active: bool) -> None:
        if is_active != (binding in self._covered):
            (self._covered.add if is_active else self._covered.discard)(binding)
            self._changed()

    async def _withdraw(self, binding: Binding) -> str:
        """End the exemption and delete the policies; return the problem, ``""`` for none."""
        self._cover(binding, is_active=False)
        self._compiled.pop(binding, None)
        uid, _ = self._applied.get(binding, ("", 0.0))
        try:
            if uid:
                await self._client.delete_all(uid)
        except (APIError, UnreachableError) as error:
            return f"the policies cannot be deleted: {error}"
        self._applied.pop(binding, None)
        return ""


def _compile(
    binding: Binding, subject: JSONObject, overrider: JSONObject, pools: Mapping[str, JSONObject | None]
) -> _Compiled:
    result = compile_overrider(binding.group_kind, subject, overrider, pools=pools)
    probes = build_probes(
        result.objects, group_kind=binding.group_kind, subject=subject, overrider=overrider, pools=pools
    )
    return _Compiled(subject, overrider, pools, result, tuple(probes))
