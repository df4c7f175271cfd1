"""Workloads that an overrider should affect and does not: missing, of another API version, or orphaned."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.conditions import Status

_MAX_NAMED: Final = 3
_MAX_ORPHANS: Final = 5


class Gaps(NamedTuple):
    """The node pools and workloads of a subject that its overrider does not reach."""

    missing: tuple[str, ...] = ()
    """Node pools that the entries select and that have no workload yet."""
    overdue: bool = False
    """Whether the time of the subject's controller to create them is over."""
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


def describe_orphans(orphans: Sequence[str]) -> str:
    """Return a message that names the workloads without an owner, and the remedy."""
    named = list_names(orphans, most=_MAX_ORPHANS)
    if len(orphans) == 1:
        text = "a rendered workload has no owner any more and keeps its overrides"
        return f"{text}: {named}; delete it when its replacement runs"
    text = f"{len(orphans)} rendered workloads have no owner any more and keep their overrides"
    remedy = "delete them when their replacements run ('fleethook convert --kubeconfig FILE' lists them)"
    return f"{text}: {named}; {remedy}"


def list_names(names: Sequence[str], *, most: int = _MAX_NAMED) -> str:
    """Return the first names for a message, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
