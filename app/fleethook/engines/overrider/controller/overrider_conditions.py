"""The conditions of overriders: status, reason and message, also if a workload, node pool or controller is missing."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.conditions_and_events import Condition, Status
from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.controller.workload_decision import Result
from fleethook.engines.overrider.subject.subject_and_pools import DAEMONS_WITHOUT_CONTROLLER, has_no_daemon_controller
from fleethook.engines.overrider.subject.workload_owner import Binding
from fleethook.model.formats.text import list_names
from fleethook.model.json import JSONObject, as_object
from fleethook.model.openyurt import POOL_NAME_LABEL, YURT_APP_DAEMON

BOUND: Final = "Bound"
RENDERED: Final = "Rendered"
CONFLICT: Final = "Conflict"

_MAX_NAMED_FAILURES: Final = 3
_MAX_NAMED_ORPHANS: Final = 5
_CONVERTED: Final = "templateType"

ORPHANS_COMMAND: Final = (
    f"kubectl get deployments,statefulsets -A -l {POOL_NAME_LABEL} "
    "-o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,OWNER:.metadata.ownerReferences[0].name"
)
"""Also lists orphans that were never rendered."""


class Gaps(NamedTuple):
    """The node pools and workloads of a subject that its overrider does not reach."""

    missing: tuple[str, ...] = ()
    """Node pools that the entries select and that have no workload yet."""
    overdue: bool = False
    """Whether the subject's controller has had enough time to create them."""
    other_version: tuple[str, ...] = ()
    """Node pools whose workloads have owner references of another API version than `read_version`."""
    subject: str = "the subject"
    """The kind and name of the subject."""
    read_version: str = ""
    """The API version in which the server reads the subject."""
    no_pools: str = ""
    """The reason why the subject has no node pool, ``""`` if it has one."""
    absent_pools: tuple[str, ...] = ()
    """Names in the subject's spec for which there is no NodePool."""
    no_controller: str = ""
    """The reason why no controller creates workloads of this kind of subject, ``""`` if one seems to."""
    orphans: tuple[str, ...] = ()
    """Rendered workloads without an owner, each with its kind and node pool."""

    def count_lacking(self, pools: Collection[str]) -> int:
        """Return the number of node pools that lack a rendered workload, not counting ``pools``."""
        return len({*self.missing, *self.other_version}.difference(pools))

    def verdicts(self) -> list[tuple[bool, Status, str]]:
        """Return whether each gap exists, with its status and reason for a condition, the worst first."""
        late = bool(self.missing) and self.overdue
        return [
            (bool(self.other_version), "False", "OwnedByOtherVersion"),
            (bool(self.no_pools), "False", "NoNodePools"),
            (late and bool(self.no_controller), "False", "NoController"),
            (late, "False", "WorkloadsMissing"),
            (bool(self.orphans), "False", "OrphanedWorkloads"),
        ]

    def texts(self) -> Iterator[str]:
        """Yield a message for each gap."""
        if self.no_pools:
            yield self.no_pools
        elif self.absent_pools:
            yield f"there is no NodePool {list_names(self.absent_pools)}, which {self.subject} names in spec.pools"
        if self.missing:
            yield f"no workload in node pool {list_names(self.missing)}{self._describe_cause()}"
        elif self.no_controller:
            yield self.no_controller
        if self.other_version:
            yield (
                f"the workloads in node pool {list_names(self.other_version)} have owner references of another API "
                f"version than {self.read_version}, in which {self.subject} is read, so they are not rendered: install "
                "yurt-manager and its CustomResourceDefinitions in the same version of OpenYurt"
            )
        if self.orphans:
            yield describe_orphans(self.orphans)

    def _describe_cause(self) -> str:
        if not self.overdue:
            return ""
        if self.no_controller:
            return f": {self.no_controller}"
        return (
            f": the controller of {self.subject} has not created it in time; see its status and the log of yurt-manager"
        )


NO_GAPS: Final = Gaps()


def find_no_controller(binding: Binding, store: StoreView, *, has_no_workloads: bool) -> str:
    """Return the reason why no controller creates a subject's workloads, ``""`` if one seems to.

    OpenYurt's controllers write a status into each subject that they reconcile.

    Args:
        binding: The subject.
        store: The subjects, the node pools and, if the server watches them, the CustomResourceDefinitions.
        has_no_workloads: Whether no controller has ever created a workload of the subject.
    """
    kind, cluster = binding.group_kind, binding.cluster
    if kind == YURT_APP_DAEMON and has_no_daemon_controller(store, cluster):
        return DAEMONS_WITHOUT_CONTROLLER
    # The first subject with a status ends the search, so it is long only if no controller reconciles any.
    if not has_no_workloads or any(_was_reconciled(subject) for subject in store.each(cluster, kind)):
        return ""
    return (
        f"no controller of OpenYurt reconciles {kind.kind}s in this cluster, as none of them has a status: check "
        "that yurt-manager runs, and which controllers its argument --controllers disables"
    )


def _was_reconciled(subject: JSONObject) -> bool:
    """Return whether a controller has ever written a subject's status.

    OpenYurt's conversion between v1alpha1 and v1beta1 gives every object a status: zeros, empty strings and, in
    v1alpha1, the type of the template (v1.7.0, pkg/apis/apps/v1alpha1/yurtappset_conversion.go).
    """
    status = as_object(subject.get("status"))
    return any(value for name, value in status.items() if name != _CONVERTED)


def describe_orphans(orphans: Sequence[str]) -> str:
    """Return a message that names the workloads without an owner, and the remedy."""
    named = list_names(orphans, most=_MAX_NAMED_ORPHANS)
    if len(orphans) == 1:
        text = "a rendered workload has no owner any more and keeps its overrides"
        return f"{text}: {named}; delete it when its replacement runs"
    text = f"{len(orphans)} rendered workloads have no owner any more and keep their overrides"
    remedy = f"delete them when their replacements run ('{ORPHANS_COMMAND}' lists all workloads; orphans have no owner)"
    return f"{text}: {named}; {remedy}"


def bound(overrider: JSONObject, binding: Binding, effective: JSONObject, *, subject: bool) -> Condition:
    """Return the condition `BOUND`: whether ``overrider`` is in effect.

    Args:
        overrider: The overrider of the status.
        binding: Its subject.
        effective: The overrider in effect for the same subject.
        subject: Whether the subject exists.
    """
    name = f"{binding.group_kind.kind} {binding.name}"
    if overrider is not effective:
        other = effective["metadata"]["name"]
        return Condition(BOUND, "False", "Superseded", f"YurtAppOverrider {other} is older and in effect for {name}")
    if not subject:
        return Condition(BOUND, "False", "SubjectNotFound", f"there is no {name} in this namespace")
    return Condition(BOUND, "True", "SubjectFound", f"in effect for {name}")


def unrendered(is_bound: Condition, orphans: Sequence[str] = ()) -> Condition:
    """Return the condition `RENDERED` of an overrider that is not in effect.

    Args:
        is_bound: The condition `BOUND`, with the reason.
        orphans: Workloads that keep earlier overrides.
    """
    if not orphans:
        return Condition(RENDERED, "False", is_bound.reason, is_bound.message)
    return Condition(RENDERED, "False", "OrphanedWorkloads", f"{is_bound.message}; {describe_orphans(orphans)}")


def rendered(results: Sequence[Result], gaps: Gaps = NO_GAPS) -> Condition:
    """Return the condition `RENDERED`: whether every workload matches the overrider."""
    concerned = [result for result in results if result.counts]
    failed = [result for result in concerned if result.error]
    status, reason = _judge(concerned, failed, gaps)
    right, total = count_workloads(concerned, gaps)
    counted = f"{right} of {total} workloads" if total else ""
    parts = [counted, *_describe_failures(failed), *gaps.texts(), *_describe_notes(concerned)]
    text = "; ".join(part for part in parts if part)
    return Condition(RENDERED, status, reason, text or f"no entry selects a node pool of {gaps.subject}")


def count_workloads(concerned: Sequence[Result], gaps: Gaps) -> tuple[int, int]:
    """Return the number of rendered workloads, and of workloads that should exist."""
    right = sum(not result.error for result in concerned)
    return right, len(concerned) + gaps.count_lacking({result.pool for result in concerned})


def _judge(concerned: Sequence[Result], failed: Sequence[Result], gaps: Gaps) -> tuple[Status, str]:
    waiting = [result for result in failed if result.waits]
    lost = [result for result in failed if result.decision.lost]
    verdicts: list[tuple[bool, Status, str]] = [
        (len(failed) > len(waiting) + len(lost), "False", "NotRendered"),
        (bool(lost), "False", "FieldsNotKept"),
        *gaps.verdicts(),
        (bool(waiting), "Unknown", "WaitingForOwner"),
        (bool(gaps.missing), "Unknown", "WorkloadsMissing"),
        (bool(concerned), "True", "AllRendered"),
    ]
    return next(((status, reason) for applies, status, reason in verdicts if applies), ("True", "NoWorkloads"))


def _describe_failures(failed: Sequence[Result]) -> list[str]:
    # Waiting workloads may be many, and need no action, so they come last.
    first = sorted(failed, key=lambda result: result.waits)[:_MAX_NAMED_FAILURES]
    shown = [f"{result.workload} in {result.pool}: {result.error}" for result in first]
    return [*shown, f"and {len(failed) - _MAX_NAMED_FAILURES} more"] if len(failed) > _MAX_NAMED_FAILURES else shown


def _describe_notes(concerned: Sequence[Result]) -> list[str]:
    pointers = list(dict.fromkeys(pointer for result in concerned for pointer in result.decision.notes))
    return [f"defaults and empty values stored otherwise than requested: {list_names(pointers)}"] if pointers else []


def conflicts(text: str) -> tuple[Condition, ...]:
    """Return the condition `CONFLICT` for a text about OpenYurt's settings; no condition for ``""``."""
    return (Condition(CONFLICT, "True", "OpenYurtInterferes", text),) if text else ()
