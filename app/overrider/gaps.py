"""What an overrider should have an effect on and has not: workloads that are missing, unreachable or orphaned."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from app.control.conditions import Status

_MAX_NAMED: Final = 3
_MAX_ORPHANS: Final = 5


class Gaps(NamedTuple):
    """The node pools and workloads of a subject that its overrider does not reach."""

    missing: tuple[str, ...] = ()
    """Node pools that the entries select and that have no workload."""
    overdue: bool = False
    """Whether the subject's controller had time enough to create them."""
    other_version: tuple[str, ...] = ()
    """Node pools whose workloads are owned in another API version than the subject is read in."""
    subject: str = "the subject"
    """Kind and name of the subject."""
    read_version: str = ""
    """The API version that the subject is read in."""
    no_pools: str = ""
    """Why the subject has no node pool at all, ``""`` if it has any."""
    absent_pools: tuple[str, ...] = ()
    """Names in the subject's spec for which there is no NodePool."""
    no_controller: str = ""
    """Why nobody creates workloads for subjects of this kind, ``""`` if somebody seems to."""
    orphans: tuple[str, ...] = ()
    """Rendered workloads that nobody owns any more, each with its kind and node pool."""

    def count_lacking(self, pools: Collection[str]) -> int:
        """Return how many node pools should have a rendered workload besides ``pools``, which have one."""
        return len({*self.missing, *self.other_version}.difference(pools))

    def verdicts(self) -> list[tuple[bool, Status, str]]:
        """Return the statuses and reasons for a condition, the worst first, each with whether it applies."""
        late = bool(self.missing) and self.overdue
        return [
            (bool(self.other_version), "False", "OwnedByOtherVersion"),
            (bool(self.no_pools), "False", "NoNodePools"),
            (late and bool(self.no_controller), "False", "NoController"),
            (late, "False", "WorkloadsMissing"),
            (bool(self.orphans), "False", "OrphanedWorkloads"),
        ]

    def texts(self) -> Iterator[str]:
        """Yield what to say about the gaps."""
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


def describe_orphans(orphans: Sequence[str]) -> str:
    """Return which workloads lost their owner, and what to do."""
    named = list_names(orphans, most=_MAX_ORPHANS)
    if len(orphans) == 1:
        text = "a rendered workload has no owner any more and keeps its overrides"
        return f"{text}: {named}; delete it when its replacement runs"
    text = f"{len(orphans)} rendered workloads have no owner any more and keep their overrides"
    remedy = "delete them when their replacements run ('fleethook convert --kubeconfig FILE' lists them)"
    return f"{text}: {named}; {remedy}"


def list_names(names: Sequence[str], *, most: int = _MAX_NAMED) -> str:
    """Return names for a message, the first few of many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
