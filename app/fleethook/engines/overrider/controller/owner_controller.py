"""Finds OpenYurt's controllers in a cluster, follows their progress with a subject, and waits for them."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.controller.workload_decision import Drift, Patience
from fleethook.engines.overrider.plan.shared_plan import PoolPlan
from fleethook.engines.overrider.render.member_differences import (
    ABSENT,
    Difference,
    find_differences,
    fingerprint,
    is_empty,
)
from fleethook.engines.overrider.render.overlay import matches, overlay
from fleethook.engines.overrider.render.undo import remembered, without_overridden
from fleethook.engines.overrider.subject.owner_index import Binding
from fleethook.engines.overrider.subject.subject_members import has_no_daemon_controller
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject, as_object
from fleethook.model.merge_keys import WORKLOAD
from fleethook.model.openyurt import NUDGED_ANNOTATION, YURT_APP_DAEMON
from fleethook.patch import apply, diff
from fleethook.workload_schema import check_workload

_CONVERTED: Final = "templateType"

DAEMONS_WITHOUT_CONTROLLER: Final = (
    "OpenYurt 1.7 and later, which serve NodePools as v1beta2, have no controller for YurtAppDaemons: use a YurtAppSet "
    "v1beta1 with nodepoolSelector"
)


def describe_lack_of_controller(group_kind: GroupKind, *, cluster: str, store: StoreView) -> str:
    """Return the reason why no controller creates the workloads of a kind of subject, ``""`` if one seems to.

    OpenYurt's controllers write a status into each subject that they reconcile.

    Args:
        group_kind: YurtAppSet or YurtAppDaemon.
        cluster: The logical cluster.
        store: The subjects, the node pools and, if the server watches them, the CustomResourceDefinitions.
    """
    if group_kind == YURT_APP_DAEMON and has_no_daemon_controller(store, cluster):
        return DAEMONS_WITHOUT_CONTROLLER
    # The first subject with a status ends the search, so it is long only if no controller reconciles any.
    if any(was_reconciled(subject) for subject in store.each(cluster, group_kind)):
        return ""
    return (
        f"no controller of OpenYurt reconciles {group_kind.kind}s in this cluster, as none of them has a status: check "
        "that yurt-manager runs, and which controllers its argument --controllers disables"
    )


def was_reconciled(subject: JSONObject) -> bool:
    """Return whether a controller has ever written a subject's status.

    OpenYurt's conversion between v1alpha1 and v1beta1 gives every object a status: zeros, empty strings and, in
    v1alpha1, the type of the template (v1.7.0, pkg/apis/apps/v1alpha1/yurtappset_conversion.go).
    """
    status = as_object(subject.get("status"))
    return any(value for name, value in status.items() if name != _CONVERTED)


def has_observed(subject: JSONObject) -> bool:
    """Return whether the subject's controller has observed its spec; True if the status does not report a generation.

    OpenYurt 1.4 reports a generation as observed even if a write of a workload was refused, so this does not prove that
    the workloads are written.
    """
    observed = as_object(subject.get("status")).get("observedGeneration")
    generation = subject["metadata"].get("generation")
    return not isinstance(observed, int) or not isinstance(generation, int) or observed >= generation


class Lag(NamedTuple):
    """The members of its template that a workload lacks."""

    lacks: frozenset[str]
    """The fingerprints of the differences."""
    operations: Sequence[JSONObject]
    """The JSON patch that adds the members."""


def find_lag(workload: JSONObject, plan: PoolPlan, found: Drift) -> Lag | None:
    """Return the members of its template that ``workload`` lacks outside the overrides, None if it lacks none.

    Such a member differs both from the bare template and from the rendered workload. A member that an override sets
    differs from one of the two only. Members that the last render replaced or removed do not count, because the
    workload may hold them for an override that is gone. Defaults and empty values do not count. Fields that Kubernetes
    does not have do not count either, because no owner can write them.

    Args:
        workload: The workload as the apiserver returns it.
        plan: The plan of its node pool.
        found: Its drift from the plan.
    """
    if matches(workload, _select_named(plan.shared.plan.base), plan.values):
        return None  # The usual case. It needs no plan for this node pool alone.
    template = plan.for_update.base
    bare = _lay_over(template, workload)
    undo = memory.undo if (memory := remembered(workload)) else {}
    lacks = _find_leaves(*(without_overridden(one, undo, WORKLOAD) for one in (workload, bare)))
    if lacks and (plan.applies or found.operations):
        lacks &= _find_leaves(workload, apply(workload, found.operations))
    if lacks:
        lacks &= _find_leaves(workload, _lay_over(_without_unknown(template), workload))
    if not lacks:
        return None
    return Lag(frozenset(lacks), found.operations or diff(workload, bare))


def _select_named(template: JSONObject) -> JSONObject:
    metadata = {name: template["metadata"].get(name) or {} for name in ("labels", "annotations")}
    return {"metadata": metadata, "spec": template["spec"]}


def _lay_over(template: JSONObject, workload: JSONObject) -> JSONObject:
    laid: JSONObject = overlay(workload, _select_named(template), WORKLOAD)
    return laid


def _without_unknown(template: JSONObject) -> JSONObject:
    findings = check_workload(template, "StatefulSet" if template["kind"] == "StatefulSet" else "Deployment")
    # From the last to the first, so that no removal changes the index of a later one.
    unknown = sorted((finding.pointer for finding in findings if finding.problem == "unknown"), reverse=True)
    kept: JSONObject = apply(template, [{"op": "remove", "path": pointer} for pointer in unknown])
    return kept


def _find_leaves(workload: JSONObject, wanted: JSONObject) -> set[str]:
    return {fingerprint([one]) for one in find_differences(workload, wanted, leaves=True) if _is_significant(one)}


def _is_significant(difference: Difference) -> bool:
    """Return whether a difference is neither a default nor an empty value that the apiserver dropped."""
    if difference.requested is ABSENT:
        return False
    return not is_empty(difference.requested) or not (difference.stored is ABSENT or is_empty(difference.stored))


# OpenYurt 1.5 to 1.7 retry a refused write each second. Ten seconds allow for ten retries after an outage of the
# apiserver, and are a short delay for a subject whose controller does not run.
OWNER_SECONDS: Final = 10.0
# OpenYurt's controller is limited by the default QPS of a client in controller-runtime (pkg/client/config: GetConfig).
_OWNER_WRITES_PER_SECOND: Final = 20.0
# A nudge without effect is repeated after 1, 2, 4 … resyncs, up to some seven days at the default of ten minutes.
_MAX_DOUBLINGS: Final = 10


class _Wait(NamedTuple):
    since: float
    """The time when the subject's spec changed, or when this controller started."""
    waiting: bool | None = None
    """Whether workloads with an override waited at the last reconciliation; None before the first one since then.

    Once no workload waits, OpenYurt's controller has caused no later difference.
    """
    behind: bool = False
    """Whether workloads without an override were outdated at the last reconciliation."""
    missing_since: float | None = None
    """The time since which a node pool lacks a workload."""
    nudged: float | None = None
    nudges: int = 0
    """The number of nudges in a row."""
    extended: float = float("-inf")
    """The time of the last successful nudge, which gives the controller its time again."""


class OwnerWaits:
    """The waits for the controllers of all subjects.

    Attributes:
        interval: Seconds between two nudges of a subject, doubled each time.
    """

    def __init__(self, *, seconds: float, interval: float, time: Callable[[], float]) -> None:
        """Prepare.

        Args:
            seconds: The time of a controller, in addition to the time for its writes.
            interval: Seconds between two nudges of a subject, doubled each time.
            time: Returns a monotonic time in seconds.
        """
        self._seconds: Final = seconds
        self.interval: Final = interval
        self._time: Final = time
        self._started = time()
        self._waits: Final[dict[Binding, _Wait]] = {}

    def __len__(self) -> int:
        """Return the number of subjects with a recorded wait."""
        return len(self._waits)

    @property
    def now(self) -> float:
        """The present time, on the clock of `until` and `trouble`."""
        return self._time()

    def start(self) -> None:
        """Give every controller its time from now on, because a new leader does not know its former writes."""
        self._started = self._time()
        self._waits.clear()

    def restart(self, binding: Binding) -> None:
        """Give a controller its time from now on, because its subject's spec changed."""
        former = self._waits.get(binding)
        fresh = _Wait(self._time())
        self._waits[binding] = fresh if former is None else fresh._replace(nudged=former.nudged, nudges=former.nudges)

    def keep(self, bindings: AbstractSet[Binding]) -> None:
        """Forget all subjects but these."""
        for binding in self._waits.keys() - bindings:
            del self._waits[binding]

    def limit(self, pools: int) -> float:
        """Return the time of the controller of a subject with so many node pools, in seconds."""
        return self._seconds + pools / _OWNER_WRITES_PER_SECOND

    def until(self, binding: Binding, *, pools: int) -> float:
        """Return the time until which the controller may write first."""
        wait = self._find_wait(binding)
        return max(wait.since, wait.extended) + self.limit(pools)

    def first_limit(self, binding: Binding, *, pools: int) -> float:
        """Return the time until which the controller may write first, without the time that nudges added."""
        return self._find_wait(binding).since + self.limit(pools)

    def patience(self, binding: Binding, *, pools: int, observed: bool) -> Patience:
        """Return whether to wait for the controller; ``observed`` tells whether it has observed the subject's spec."""
        over = self._find_wait(binding).waiting is False or self._time() >= self.until(binding, pools=pools)
        return Patience(not over, observed)

    def waited(self, binding: Binding) -> bool:
        """Return whether workloads with an override waited for the controller at the last reconciliation."""
        return bool(self._find_wait(binding).waiting)

    def note(self, binding: Binding, *, waiting: bool, behind: bool, missing: bool) -> None:
        """Record the result of a reconciliation.

        Args:
            binding: The subject.
            waiting: Whether a workload with an override waits for its owner.
            behind: Whether a workload without an override is outdated.
            missing: Whether a node pool lacks a workload.
        """
        wait = self._find_wait(binding)
        since = None if not missing else self._time() if wait.missing_since is None else wait.missing_since
        nudges = wait.nudges if waiting or behind or missing else 0
        self._waits[binding] = wait._replace(waiting=waiting, behind=behind, missing_since=since, nudges=nudges)

    def trouble(self, binding: Binding, *, pools: int) -> float | None:
        """Return the time when the controller is late, None if no workload is outdated or missing."""
        wait = self._find_wait(binding)
        starts = [] if wait.missing_since is None else [wait.missing_since]
        if wait.waiting or wait.behind:
            starts.append(wait.since)
        return min(starts) + self.limit(pools) if starts else None

    def should_nudge(self, binding: Binding, *, pools: int) -> bool:
        """Return whether the controller is late and the pause since the last nudge is over."""
        over = self.trouble(binding, pools=pools)
        if over is None or self._time() < over:
            return False
        wait = self._find_wait(binding)
        pause = self.interval * 2 ** min(max(wait.nudges - 1, 0), _MAX_DOUBLINGS)
        return wait.nudged is None or self._time() - wait.nudged >= pause

    def nudged(self, binding: Binding, *, well: bool) -> None:
        """Record a nudge; ``well`` tells whether its annotation was written."""
        wait, now = self._find_wait(binding), self._time()
        self._waits[binding] = wait._replace(
            nudged=now, nudges=wait.nudges + 1, extended=now if well else wait.extended
        )

    def _find_wait(self, binding: Binding) -> _Wait:
        return self._waits.get(binding) or _Wait(self._started)


def nudged_lately(subject: JSONObject, *, now: datetime, seconds: float) -> bool:
    """Return whether this or another leader nudged the subject's controller within some seconds."""
    text = as_object(subject["metadata"].get("annotations")).get(NUDGED_ANNOTATION)
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else None
        return at is not None and abs(now - at) < timedelta(seconds=seconds)
    except (ValueError, TypeError):
        return False  # Another client wrote the text, or it has no time zone.
