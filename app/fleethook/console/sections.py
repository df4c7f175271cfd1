"""The sections of the console: their addresses and titles."""

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request

from fleethook.cluster.followed_cluster import Followed
from fleethook.cluster.store import Index, ObjectKey, Store
from fleethook.console.attention import Attention
from fleethook.engine import installed_engines, load_reference
from fleethook.model.gvk import GroupKind
from fleethook.settings import Settings

if TYPE_CHECKING:
    from fleethook.console.context import ConsoleContext

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


def has_kinds(*kinds: GroupKind) -> Callable[["ConsoleContext"], bool]:
    """Return a function that tells whether the source has objects of one of the kinds, or its cluster serves one."""
    return lambda context: any(context.store.has(one) or context.serves(one) for one in kinds)


class Section(NamedTuple):
    """A page with an entry in the navigation.

    Attributes:
        path: Its path, ``/`` for the overview.
        title: Its name in the navigation.
        is_used: Whether the source has anything for its pages; the navigation puts other sections under "More".
    """

    path: str
    title: str
    is_used: Callable[["ConsoleContext"], bool] = lambda _context: True


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
    return tuple(load_reference(one.page) for one in installed_engines().values() if one.page)


def find_address(store: Store, key: ObjectKey) -> str:
    """Return the address of the page that shows an object, that of the search if no engine has such a page."""
    found = next((one.addresses[key.group_kind] for one in engine_pages() if key.group_kind in one.addresses), None)
    return found(store, key) if found else f"/search?{urlencode({'q': key.name})}"


@functools.cache
def list_addresses() -> Mapping[GroupKind, FindAddress]:
    """Return the kinds that have pages, each with the function that returns the page of an object."""
    return {kind: find for one in engine_pages() for kind, find in one.addresses.items()}


@functools.cache
def list_sections() -> tuple[Section, ...]:
    """Return the sections in the order of the navigation."""
    reviews = Section("/reviews", "Reviews", lambda context: context.reviews is not None)
    return Section("/", "Overview"), *(one.section for one in engine_pages()), reviews


def divide_sections(context: "ConsoleContext") -> tuple[tuple[Section, ...], tuple[Section, ...]]:
    """Return the sections that are used, and the others. With an empty source, all are shown."""
    sections = list_sections()
    used = tuple(one for one in sections if one.is_used(context))
    return (used, tuple(one for one in sections if one not in used)) if len(used) > 1 else (sections, ())


def find_section(path: str) -> Section | None:
    """Return the section of a path, None for a path of the frame such as ``/static/…``."""
    first = "/" + path.lstrip("/").partition("/")[0]
    return next((one for one in list_sections() if one.path == first), None)
