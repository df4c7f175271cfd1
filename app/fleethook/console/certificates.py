"""The ends of certificates that the overview shows: of the server, and of the authorities in webhook configurations."""

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

from fleethook.cluster.store import ObjectKey, Store
from fleethook.console.sections import MUTATING, VALIDATING
from fleethook.model.gvk import GroupKind
from fleethook.model.json import as_object
from fleethook.outbound.tls.ca_bundle import MIN_REMAINING, BundleError, Validity, find_end, read_bundle

CONFIGURATIONS: Final = (MUTATING, VALIDATING)
"""The kinds that have authorities."""
MAX_ROWS: Final = 20
"""Shown certificates, those that end first."""
State = Literal["expired", "unreadable", "ends soon", "valid"]
"""``expired`` also means not valid yet."""


class Bundle(NamedTuple):
    """A ``caBundle`` of a webhook configuration.

    Attributes:
        key: The configuration.
        webhooks: The number of its webhooks that have this bundle.
        authorities: The validity of each authority, empty for a bundle that cannot be read.
    """

    key: ObjectKey
    webhooks: int
    authorities: Sequence[Validity]


class Certificate(NamedTuple):
    """A row of the overview.

    Attributes:
        name: The server, or kind and name of a configuration.
        webhooks: The number of webhooks that trust it, None for the server.
        state: Its state.
        until: Its end in UTC, ``""`` if it is unknown.
    """

    name: str
    webhooks: int | None
    state: State
    until: str


class Certificates(NamedTuple):
    """The certificates that end first, and the number of all."""

    rows: Sequence[Certificate]
    total: int


def collect_bundles(store: Store) -> list[Bundle]:
    """Return the bundles of all webhook configurations. Webhooks without one trust the authorities of the system."""
    read = functools.cache(_read)  # many configurations have the same authority
    return [
        Bundle(key, total, read(text))
        for kind in CONFIGURATIONS
        for key in store.keys(kind)
        for text, total in _count_bundles(store.get(*key)).items()
    ]


def _count_bundles(configuration: Any) -> dict[str, int]:
    """Return the number of webhooks of a configuration that have each bundle."""
    counts: dict[str, int] = {}
    webhooks = as_object(configuration).get("webhooks")
    for webhook in webhooks if isinstance(webhooks, list) else ():
        text = as_object(as_object(webhook).get("clientConfig")).get("caBundle")
        if text and isinstance(text, str):
            counts[text] = counts.get(text, 0) + 1
    return counts


def _read(text: str) -> Sequence[Validity]:
    try:
        return read_bundle(text)
    except BundleError:
        return ()


def judge_certificates(
    bundles: Iterable[Bundle], kinds: Collection[GroupKind], *, server_end: float | None, now: datetime
) -> Certificates:
    """Return the certificates, those that need attention first.

    Args:
        bundles: The bundles of webhook configurations.
        kinds: The kinds that the user may get.
        server_end: End of the server's certificate in seconds since the epoch, None or 0 if unknown.
        now: The time.
    """
    found = [_judge_bundle(one, now) for one in bundles if one.key.group_kind in kinds]
    found += _judge_server(server_end, now)
    found.sort(key=lambda one: (_ORDER.index(one.state), one.until, one.name))
    return Certificates(found[:MAX_ROWS], len(found))


_ORDER: Final[tuple[State, ...]] = ("unreadable", "expired", "ends soon", "valid")


def _judge_bundle(bundle: Bundle, now: datetime) -> Certificate:
    key = bundle.key
    where = f" in {key.cluster}" if key.cluster else ""
    name = f"{key.group_kind.kind} {key.name}{where}"
    if not bundle.authorities:
        return Certificate(name, bundle.webhooks, "unreadable", "")
    end = find_end(bundle.authorities, now)
    if end is None:
        return Certificate(name, bundle.webhooks, "expired", _format(max(one.end for one in bundle.authorities)))
    return Certificate(name, bundle.webhooks, _judge_end(end, now), _format(end))


def _judge_server(seconds: float | None, now: datetime) -> Iterator[Certificate]:
    if not seconds:
        return
    try:
        end = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        yield Certificate("server", None, "unreadable", "")
        return
    yield Certificate("server", None, _judge_end(end, now), _format(end))


def _judge_end(end: datetime, now: datetime) -> State:
    if end < now:
        return "expired"
    return "ends soon" if end - now < MIN_REMAINING else "valid"


def _format(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"
