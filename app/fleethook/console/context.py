"""The objects and options that all pages of a console share."""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.store import PartState, Store
from fleethook.console.reviews.review_index import ReviewIndex
from fleethook.console.server_watch import LeaseWatch, MetricsSampler
from fleethook.model.gvk import GroupKind
from fleethook.settings import Settings
from fleethook.work.threads import Worker

if TYPE_CHECKING:
    from fleethook.cluster.followed_cluster import Cluster
    from fleethook.console.reviews.replay_jobs import ReviewReplay


def read_clock() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, eq=False)
class ConsoleContext:
    """The objects and options of a console.

    Attributes:
        store: The objects; pages only read them.
        manifests: The source of the objects if they are in files, else None.
        cluster: The source of the objects if they are in a cluster, else None.
        command_source: The options that name the source in an equivalent command, such as ``-f examples``.
        records: Directory of recordings, None without one.
        crd_cache: Data directory of the CRD cache, None for that of the user.
        playground: Whether the playground may run scripts.
        worker: Runs work above a few milliseconds in a thread. Such work must not read the store, which the event loop
            changes; take the objects out first.
        lease: Reads the Lease of the server's leader, None without a cluster.
        reviews: The recorded reviews, None without recordings.
        replay: Asks recorded reviews again, None without recordings.
        sampler: Reads the metrics of a server, None without one.
        rules: The admission rules in Python of ``rule_files``, as webhook configurations in a store of their own; None
            without files.
        rule_files: The files, as the option ``--rules`` names them.
        settings: The settings, of which the pages of an engine read its section.
        clock: Returns the time, from which pages compute ages.
    """

    store: Store
    manifests: ManifestSource | None = None
    cluster: "Cluster | None" = None
    command_source: str = ""
    records: Path | None = None
    crd_cache: Path | None = None
    playground: bool = True
    worker: Worker = field(default_factory=Worker)
    lease: LeaseWatch | None = None
    reviews: ReviewIndex | None = None
    replay: "ReviewReplay | None" = None
    sampler: MetricsSampler | None = None
    rules: ManifestSource | None = None
    rule_files: tuple[Path, ...] = ()
    settings: Settings = field(default_factory=Settings)
    clock: Callable[[], datetime] = read_clock

    def kubectl(self, *words: str) -> str:
        """Return a kubectl command on the cluster of the source, or on that of the user if the source is files."""
        given = shlex.split(self.command_source)
        options = [word for name in ("--kubeconfig", "--context") for word in _take_option(given, name)]
        return shlex.join(["kubectl", *options, *words])

    def fill_command(self, resources: str) -> str:
        """Return the command that brings objects to an empty page.

        Args:
            resources: Plurals, as kubectl takes them: ``yurtappsets,yurtappdaemons``.
        """
        given = shlex.split(self.command_source)
        if "-f" not in given:
            return self.kubectl("apply", "--filename", "FILE")
        place = Path(given[given.index("-f") + 1])
        file = place if place.suffix else place / "objects.yaml"
        listed = shlex.join(["kubectl", "get", resources, "--all-namespaces", "--output", "yaml"])
        return f"{listed} {'>>' if place.suffix else '>'} {shlex.quote(str(file))}"

    def serves(self, group_kind: GroupKind) -> bool:
        """Return whether the cluster of the source is known to serve a kind."""
        if self.cluster is None:
            return False
        try:
            informer = self.cluster.source.informer(group_kind)
        except KeyError:
            return False
        return informer.synced and not informer.absent

    def parts(self) -> Iterator[PartState]:
        """Yield the state of each part of the source: the directory, or each resource."""
        if self.manifests is not None:
            yield from self.manifests.parts()
        if self.cluster is not None:
            yield from self.cluster.source.parts()


def _take_option(words: list[str], name: str) -> list[str]:
    """Return an option with its value, nothing if it is not among the words of a command."""
    return words[words.index(name) :][:2] if name in words else []
