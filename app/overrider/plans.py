"""Plans, kept as long as what they were compiled from stays the same."""

from typing import Final

from app.model.gvk import GroupKind
from app.model.json import JSON, JSONObject
from app.model.openyurt import NODE_POOL, YURT_APP_DAEMON
from app.overrider.plan import Plan, compile_plan
from app.overrider.steps import RenderError
from app.overrider.template import SubjectError
from app.store import StoreView

# One plan takes some 10 KiB, so this is at most some 300 MiB; a fleet of that size has as many workloads per replica.
_MOST: Final = 32_768

_Key = tuple[str, str, str, str, str, str]
_Inputs = tuple[JSONObject, JSONObject | None, JSONObject | None]


class PlanCache:
    """Compiles a plan when it is first asked for and again when one of its inputs was replaced.

    The store never changes an object in place, so identity of the inputs is nearly all there is to check; nothing has
    to be invalidated and nothing stale can be answered. An input that was replaced by one that differs in its status
    only (every Pod that becomes ready does that to a YurtAppSet) keeps the plan.
    """

    def __init__(self, *, most: int = _MOST) -> None:
        self._most: Final = most
        self._plans: Final[dict[_Key, tuple[_Inputs, Plan | SubjectError | RenderError]]] = {}

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
    ) -> Plan:
        """Return the plan for a subject's workload of ``kind`` in ``pool``.

        Raises:
            SubjectError: Nothing can be built from the subject.
            RenderError: An entry is broken in itself.
        """
        node_pool = store.get(cluster, NODE_POOL, "", pool) if group_kind == YURT_APP_DAEMON else None
        metadata = subject["metadata"]
        key = (cluster, metadata.get("namespace") or "", group_kind.kind, metadata["name"], kind, pool)
        cached = self._plans.get(key)
        if cached is not None:
            known_subject, known_overrider, known_pool = cached[0]
            if known_subject is subject and known_overrider is overrider and known_pool is node_pool:
                return _result(cached[1])
            if all(map(same_input, cached[0], (subject, overrider, node_pool))):
                self._plans[key] = ((subject, overrider, node_pool), cached[1])
                return _result(cached[1])
        if len(self._plans) >= self._most:
            self._plans.clear()
        outcome: Plan | SubjectError | RenderError
        try:
            outcome = compile_plan(group_kind, subject, overrider, kind=kind, pool=pool, node_pool=node_pool)
        except (SubjectError, RenderError) as error:
            outcome = error
        self._plans[key] = ((subject, overrider, node_pool), outcome)
        return _result(outcome)


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


def _result(outcome: Plan | SubjectError | RenderError) -> Plan:
    if isinstance(outcome, Plan):
        return outcome
    # Without the frames of earlier raises, which would otherwise pile up on the one kept exception.
    raise outcome.with_traceback(None)
