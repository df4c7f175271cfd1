"""The objects and options that all pages of a console share, and the record of the pages of an engine."""

import functools
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request

from fleethook.cluster.followed_objects import Followed
from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.cluster.partial_and_stale_objects import PartState
from fleethook.cluster.registration.consumer_bindings_and_webhooks import name_configuration
from fleethook.cluster.store import Index, ObjectKey, Store
from fleethook.console.attention_lines import Attention
from fleethook.console.metrics_and_lease import LeaseWatch, MetricsSampler
from fleethook.console.reviews.review_index import ReviewIndex
from fleethook.engine import installed_engines, load_reference
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.settings import Settings
from fleethook.work.threads_and_gc import Worker

if TYPE_CHECKING:
    from fleethook.cluster.followed_objects import Cluster
    from fleethook.console.reviews.review_detail_and_replay import ReviewReplay


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
    worker: Worker = field(default_factory=Worker)
    lease: LeaseWatch | None = None
    reviews: ReviewIndex | None = None
    replay: "ReviewReplay | None" = None
    sampler: MetricsSampler | None = None
    rules: ManifestSource | None = None
    rule_files: tuple[Path, ...] = ()
    settings: Settings = field(default_factory=Settings)
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def kubectl(self, *words: str) -> str:
        """Return a kubectl command on the cluster of the source, or on that of the user if the source is files."""
        given = shlex.split(self.command_source)
        options = [word for name in ("--kubeconfig", "--context") for word in _take_option(given, name)]
        return shlex.join(["kubectl", *options, *words])

    def list_covered(self) -> list[str]:
        """Return the workspaces of kcp that have a configuration of the rules of ``--kcp-export``, none without it."""
        export = self.settings.kcp_export
        keys = (key for kind in (MUTATING, VALIDATING) for key in (self.store.keys(kind) if export else ()))
        return sorted({key.cluster for key in keys if export and key.name == name_configuration(export)})

    def list_configurations(self) -> list[JSONObject]:
        """Return the webhook configurations of the cluster; with ``--kcp-export``, the rules of one workspace."""
        export, kinds = self.settings.kcp_export, (MUTATING, VALIDATING)
        if export is None:
            return [dict(one) for kind in kinds for one in self.store.each("", kind) if isinstance(one, dict)]
        found = [
            self.store.get(cluster, kind, "", name_configuration(export))
            for cluster in self.list_covered()[:1]
            for kind in kinds
        ]
        return [one for one in found if isinstance(one, dict)]

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


def describe_source(settings: Settings, files: Sequence[Path]) -> str:
    """Return the options of a command that reads the same objects."""
    if files:
        given = [("-f", str(file)) for file in files] + [("--exclude", one) for one in settings.exclude]
        return shlex.join(word for pair in given for word in pair)
    words = ["--in-cluster"] if settings.kubeconfig is None else ["--kubeconfig", str(settings.kubeconfig)]
    words += [] if settings.context is None else ["--context", settings.context]
    words += ["--kcp"] if settings.kcp else []
    words += [] if settings.kcp_export is None else ["--kcp-export", settings.kcp_export]
    cache = settings.kcp_cache_kubeconfig
    return shlex.join([*words, *([] if cache is None else ["--kcp-cache-kubeconfig", str(cache)])])


def _take_option(words: list[str], name: str) -> list[str]:
    """Return an option with its value, nothing if it is not among the words of a command."""
    return words[words.index(name) :][:2] if name in words else []


FindAddress = Callable[[Store, ObjectKey], str]
"""Returns the address of the page that shows an object."""

FindRelated = Callable[[Store, ObjectKey], ObjectKey | None]
"""Returns another object, None without one."""


class Hit(NamedTuple):
    """A name that the search finds.

    Attributes:
        title: The namespace and name.
        cluster: Its logical cluster, ``""`` for a plain cluster.
        address: The page that shows it.
    """

    title: str
    cluster: str
    address: str


ListNames = Callable[[Request], Awaitable[Iterable[Hit]]]
"""Returns names that are no objects."""


def has_kinds(*kinds: GroupKind) -> Callable[[ConsoleContext], bool]:
    """Return a function that tells whether the source has objects of one of the kinds, or its cluster serves one."""
    return lambda context: any(context.store.has(kind) or context.serves(kind) for kind in kinds)


class Section(NamedTuple):
    """A page with an entry in the navigation.

    Attributes:
        path: Its path, ``/`` for the overview.
        title: Its name in the navigation.
        is_used: Whether the source has anything for its pages; the navigation puts other sections under "More".
    """

    path: str
    title: str
    is_used: Callable[[ConsoleContext], bool] = lambda _context: True


class ConsolePage(NamedTuple):
    """The pages of an engine. Their templates are in the folder ``templates`` beside the module.

    Attributes:
        section: Their section.
        router: Their routes.
        indexes: The indexes of the store that they need, besides those of the engine's reviews.
        followed: Resources that they show, besides those of the engine's reviews.
        attention: Returns its lines of the overview's list, None without any. It must not wait for work that takes
            long.
        addresses: The kinds that the search finds, each with the function that returns the page of an object.
        related: Return another object that decides about an object of a kind, such as the overrider of a workload.
        names: The names of parts of objects that the search finds, by their title.
        check: Raises an error before the console starts if a setting of the engine cannot be used.
    """

    section: Section
    router: APIRouter
    indexes: tuple[Index, ...] = ()
    followed: Followed = Followed()
    attention: Callable[[Request], Awaitable[Attention]] | None = None
    addresses: Mapping[GroupKind, FindAddress] = MappingProxyType({})
    related: Mapping[GroupKind, FindRelated] = MappingProxyType({})
    names: Mapping[str, ListNames] = MappingProxyType({})
    check: Callable[[Settings], object] = lambda settings: settings


MUTATING: Final = GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration")
VALIDATING: Final = GroupKind("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")


@functools.cache
def engine_pages() -> tuple[ConsolePage, ...]:
    """Return the pages of all installed engines."""
    return tuple(load_reference(engine.page) for engine in installed_engines().values() if engine.page)


def find_address(store: Store, key: ObjectKey) -> str:
    """Return the address of the page that shows an object, that of the search if no engine has such a page."""
    found = next((page.addresses[key.group_kind] for page in engine_pages() if key.group_kind in page.addresses), None)
    return found(store, key) if found else f"/search?{urlencode({'q': key.name})}"


@functools.cache
def list_addresses() -> Mapping[GroupKind, FindAddress]:
    """Return the kinds that have pages, each with the function that returns the page of an object."""
    return {kind: find for page in engine_pages() for kind, find in page.addresses.items()}
