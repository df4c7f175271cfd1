"""The section ``/crds``: cache entries, Karmada instances with their pins, and one entry.

The pages read the cache without a lock, and create no directory. They read disks and archives in a thread. The limits
of archives bound the work for one entry.
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from fleethook.cluster.followed_objects import Followed
from fleethook.cluster.kubernetes.watched_resources import KARMADAS
from fleethook.cluster.store import ObjectKey
from fleethook.console.attention_lines import Attention, AttentionLine, Severity, read_since
from fleethook.console.context import ConsoleContext, ConsolePage, Section, has_kinds
from fleethook.console.page_frame import Context, build_fill_command, find_context, render
from fleethook.engines.crds.archive import tarball_unpacking
from fleethook.engines.crds.archive.names_content_limits import TarballManifest
from fleethook.engines.crds.cache.cache_entry import ListedEntry, State, translate_os_errors
from fleethook.engines.crds.cache.tarball_cache import Cache, find_data_directory
from fleethook.engines.crds.instance.karmada_release import read_instance_release
from fleethook.engines.crds.instance.source_and_secrets import select_source
from fleethook.engines.crds.instance.source_validation import is_chosen_by_version
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit, redact
from fleethook.model.crd_tarball import KARMADA
from fleethook.model.formats.text import escape
from fleethook.model.json import JSON, JSONObject, as_list, as_object

SHORT_KEY: Final = 12
"""Digits of a key in a table: enough to tell entries apart."""
MAX_CONDITIONS: Final = 20
KARMADA_RESOURCE: Final = "karmadas.operator.karmada.io"

_READING: Final = "reading the cache"


def inspect_entries(cache: Cache) -> dict[str, ListedEntry]:
    """Check all entries, and return them by key. Raises CRDsError DISK."""
    with translate_os_errors(_READING):
        return {entry.key: entry for entry in cache.entries()}


def read_content(cache: Cache, key: str) -> tuple[ListedEntry, TarballManifest | None]:
    """Return an entry in any state, and the files of its tarball if it is verified.

    Raises:
        CRDsError: USAGE for an invalid key, NOT_CACHED without an entry, DISK.
    """
    with translate_os_errors(_READING):
        listed = cache.inspect(key)
    if listed is None:
        raise CRDsError(Exit.NOT_CACHED, f"{key} is not in the cache {cache.directory}")
    found = cache.tarball(key) if listed.state == "ready" else None
    return listed, None if found is None else tarball_unpacking.list_files(found[1])


_MEANINGS: Final[dict[State, str]] = {
    "ready": "verified: the tarball has the recorded digest",
    "bare": "not trusted: it has no record; the next fetch replaces it",
    "changed": "damaged, not trusted: the next fetch replaces it",
    "refused": "refused, not trusted: a link, or an unsafe owner or mode",
}


class EntryView(NamedTuple):
    """An entry of the cache.

    Attributes:
        key: Its key, 64 hexadecimal digits.
        short_key: The first digits of the key.
        url: The recorded URL without secrets, ``""`` if it is unknown.
        sha256: The digest of the tarball, ``""`` for an entry that is not verified.
        size: Bytes of all files.
        state: Its state.
        meaning: The meaning of the state.
        problem: The problems that the check found, ``""`` if there are none.
        asked_at: The time of the origin's last confirmation in UTC; without a record, of the last change.
        is_ready: Whether the entry is verified.
        warnings: The warnings of its archive.
    """

    key: str
    short_key: str
    url: str
    sha256: str
    size: int
    state: State
    meaning: str
    problem: str
    asked_at: str
    is_ready: bool
    warnings: tuple[str, ...]


class FileView(NamedTuple):
    """A file of a tarball."""

    path: str
    size: int
    sha256: str


def describe_entry(entry: ListedEntry) -> EntryView:
    """Return the description of an entry in any state."""
    record, is_ready = entry.record, entry.state == "ready"
    return EntryView(
        key=entry.key,
        short_key=entry.key[:SHORT_KEY],
        # A writer of the cache can write a record with credentials.
        url=escape(redact(record.url)) if record else "",
        sha256=record.sha256 if record and is_ready else "",
        size=entry.size,
        state=entry.state,
        meaning=_MEANINGS[entry.state],
        problem=escape(entry.problem),
        asked_at=f"{entry.asked_at:%Y-%m-%d %H:%M:%S}",
        is_ready=is_ready,
        warnings=tuple(map(escape, record.warnings)) if record and is_ready else (),
    )


def list_files(manifest: TarballManifest) -> list[FileView]:
    """Return the files of a verified tarball, sorted by path."""
    return [FileView(escape(path), *digest) for path, digest in sorted(manifest.files.items())]


_SOME_RELEASE: Final = "v0.0.0"
"""A release for instances whose operator chooses it; no page shows it."""

PinState = Literal["none", "unknown", "missing", "untrusted", "match", "mismatch"]
"""``none``: without a pin. ``unknown``: the operator chooses the URL. ``missing``: no entry. ``untrusted``: the entry
is not verified. ``match``, ``mismatch``: the verified entry has the pinned digest, or a different one."""

PIN_TEXTS: Final[dict[PinState, str]] = {
    "none": "no pin",
    "unknown": "the operator chooses the URL",
    "missing": "not in the cache",
    "untrusted": "the cache entry is not trusted",
    "match": "the cache entry has this digest",
    "mismatch": "the cache entry has another digest",
}


class ConditionView(NamedTuple):
    """A condition; every text is as stored."""

    type: str
    status: str
    reason: str
    message: str
    since: str


class InstanceView(NamedTuple):
    """An instance of Karmada.

    Attributes:
        cluster: Its logical cluster.
        namespace: Its namespace.
        name: Its name.
        source: The source of its tarball without secrets, ``""`` if the instance is invalid.
        key: The key of the cache entry, ``""`` if it is unknown.
        policy: The download policy, ``""`` if the instance is invalid.
        pin: The pinned SHA-256 digest, ``""`` without a pin.
        problem: The reason why the instance is invalid, else ``""``.
        warnings: The warnings about its source.
        conditions: The first conditions of its status.
    """

    cluster: str
    namespace: str
    name: str
    source: str
    key: str
    policy: str
    pin: str
    problem: str
    warnings: tuple[str, ...]
    conditions: tuple[ConditionView, ...]

    @property
    def needs_attention(self) -> bool:
        """Whether it is invalid, or a condition is not ``True``."""
        return bool(self.problem) or any(condition.status != "True" for condition in self.conditions)

    @property
    def anchor(self) -> str:
        """Its place on the page."""
        return make_anchor(self.cluster, self.namespace, self.name)


def make_anchor(*names: str) -> str:
    """Return the place of an instance on the page, from its cluster, namespace and name."""
    return f"instance-{quote('/'.join(filter(None, names)))}"


class NextCommand(NamedTuple):
    """The next step for an instance: a text, and the command; both ``""`` if there is none."""

    text: str = ""
    command: str = ""


def describe_instance(key: ObjectKey, document: JSONObject) -> InstanceView:
    """Return the description of an instance; its fields may have any type."""
    release = read_instance_release(document).release
    conditions = _read_conditions(document)
    try:
        chosen = select_source(document, version=release or _SOME_RELEASE)
    except (CRDsError, UnicodeEncodeError) as error:  # a path of a file may have a lone surrogate
        return InstanceView(*_name(key), "", "", "", "", escape(str(error)), (), conditions)
    by_operator = is_chosen_by_version(as_object(document.get("spec")).get("crdTarball"))
    return InstanceView(
        *_name(key),
        source=_describe_release(release) if by_operator else escape(redact(chosen.source.url)),
        key="" if by_operator else chosen.source.key,
        policy=chosen.policy.value,
        pin=chosen.source.sha256,
        problem="",
        warnings=tuple(map(escape, chosen.warnings)),
        conditions=conditions,
    )


def describe_instances(documents: Mapping[ObjectKey, JSONObject]) -> list[InstanceView]:
    """Return the descriptions of instances by cluster, namespace and name, those that need attention first."""
    views = [describe_instance(*item) for item in documents.items()]
    return sorted(views, key=lambda one: (not one.needs_attention, one.cluster, one.namespace, one.name))


def compare_pin(instance: InstanceView, entries: Mapping[str, ListedEntry]) -> PinState:
    """Return the state of an instance's pin.

    Args:
        instance: The instance.
        entries: The entries of the cache by key; an entry that is not verified never matches.
    """
    if not instance.pin:
        return "none"
    if not instance.key:
        return "unknown"
    entry = entries.get(instance.key)
    if entry is None:
        return "missing"
    if entry.state != "ready" or entry.record is None:
        return "untrusted"
    return "match" if entry.record.sha256 == instance.pin else "mismatch"


def choose_step(
    instance: InstanceView, entry: ListedEntry | None, context: ConsoleContext, cache: Cache
) -> NextCommand:
    """Return the next step for an instance that needs attention, or whose entry cannot be used.

    Args:
        instance: The instance.
        entry: Its entry of the cache, None without one.
        context: Gives the command of kubectl.
        cache: The cache of this host.
    """
    if instance.problem:
        command = context.kubectl("--namespace", instance.namespace, "edit", KARMADA_RESOURCE, instance.name)
        return NextCommand("Correct spec.crdTarball:", command)
    if entry is not None and entry.state != "ready":
        return _check_source(instance, cache)
    if compare_pin(instance, {entry.key: entry} if entry else {}) == "mismatch" or (
        entry is None and instance.needs_attention
    ):
        return _check_source(instance, cache)
    if instance.needs_attention:
        text = "The entry of this host is verified, so the fault is on the host that reports it:"
        return NextCommand(
            text, context.kubectl("--namespace", instance.namespace, "describe", KARMADA_RESOURCE, instance.name)
        )
    return NextCommand()


def _check_source(one: InstanceView, cache: Cache) -> NextCommand:
    pinned = ("--sha256", one.pin) if one.pin else ()
    url = urlsplit(one.source)
    if not one.key:
        text = "Check the tarball of your operator's release; replace v1.18.0 by its version:"
        return NextCommand(text, _make_command(cache, "fetch", "--version", "v1.18.0", *pinned))
    if url.scheme == "file":
        return NextCommand("Check the file:", shlex.join(["fleethook", "crds", "verify", unquote(url.path), *pinned]))
    command = _make_command(cache, "fetch", one.source, "--policy", "Always", *pinned)
    return NextCommand("Download and check the tarball:", command)


def list_instance_lines(one: InstanceView) -> Iterator[AttentionLine]:
    """Yield the lines about an instance that is invalid, or whose conditions say that it is not ready."""
    address = f"/crds#{one.anchor}"
    about = f"Karmada {one.namespace}/{one.name}{f' in {one.cluster}' if one.cluster else ''}"
    if one.problem:
        yield AttentionLine("error", about, one.problem, address)
    reasons = set[tuple[str, str]]()
    for condition in one.conditions:
        cause = condition.reason, condition.message
        if condition.status != "True" and cause not in reasons:
            reasons.add(cause)
            text = f"{condition.type} is {condition.status}: {condition.message or condition.reason or 'no reason'}"
            severity: Severity = "failing" if condition.status == "False" else "waiting"
            yield AttentionLine(severity, about, text, address, read_since(condition.since))
    for text in one.warnings:
        yield AttentionLine("warning", about, text, address)


def _name(key: ObjectKey) -> tuple[str, str, str]:
    return key.cluster, key.namespace, key.name


def _describe_release(release: str) -> str:
    return f"the release of Karmada's operator{f'; the images are of {release}' if release else ''}"


def _read_conditions(document: JSONObject) -> tuple[ConditionView, ...]:
    stored = as_list(as_object(document.get("status")).get("conditions"))
    return tuple(_read_condition(as_object(one)) for one in stored[:MAX_CONDITIONS])


def _read_condition(condition: Mapping[str, JSON]) -> ConditionView:
    names = ("type", "status", "reason", "message", "lastTransitionTime")
    texts = [condition.get(name) for name in names]
    return ConditionView(*(escape(text) if isinstance(text, str) else "" for text in texts))


router: Final = APIRouter(prefix="/crds")


async def find_attention(request: Request) -> Attention:
    """Return the instances that are invalid or not ready."""
    return Attention([line for one in await _describe(find_context(request)) for line in list_instance_lines(one)])


PAGE: Final = ConsolePage(
    Section("/crds", "CRD tarballs", is_used=has_kinds(KARMADA)),
    router,
    followed=Followed(advisory=(KARMADAS,)),
    attention=find_attention,
    addresses={KARMADA: lambda _store, key: f"/crds#{make_anchor(*_name(key))}"},
)
_STATUSES: Final = {Exit.USAGE: 422, Exit.NOT_CACHED: 404}


@router.get("")
async def show_list(request: Request, context: Context) -> HTMLResponse:
    """Show the cache entries and the instances; an error if the cache cannot be read."""
    cache = _open_cache(context)
    entries: Mapping[str, ListedEntry] = {}
    problem = ""
    try:
        entries = await context.worker.run("", inspect_entries, cache)
    except CRDsError as error:
        problem = escape(str(error))
    return render(
        request,
        "crds/list.html",
        command=_make_command(cache, "cache", "ls"),
        command_title="The cache entries on the command line",
        fetch_command=_make_command(cache, "fetch", "--version", "v1.18.0"),
        fill_command=build_fill_command(context, KARMADA_RESOURCE),
        directory=escape(str(cache.directory)),
        problem=problem,
        entries=[describe_entry(entry) for entry in entries.values()],
        rows=[_make_row(one, entries.get(one.key), context, cache) for one in await _describe(context)],
        pin_texts=PIN_TEXTS,
        entry_url=lambda key: f"/crds/entry?{urlencode({'key': key})}",
    )


class _Row(NamedTuple):
    one: InstanceView
    pin_state: PinState
    entry: EntryView | None
    step: NextCommand


def _make_row(one: InstanceView, entry: ListedEntry | None, context: ConsoleContext, cache: Cache) -> _Row:
    pin_state = compare_pin(one, {entry.key: entry} if entry else {})
    return _Row(one, pin_state, describe_entry(entry) if entry else None, choose_step(one, entry, context, cache))


@router.get("/entry")
async def show_entry(request: Request, context: Context, key: str = "") -> HTMLResponse:
    """Show one entry with its files, and the instances that use it."""
    cache = _open_cache(context)
    try:
        listed, manifest = await context.worker.run("", read_content, cache, key)
    except CRDsError as error:
        raise HTTPException(_STATUSES.get(error.exit, 500), escape(str(error))) from None
    return render(
        request,
        "crds/entry.html",
        command=_make_command(cache, "cache", "ls"),
        command_title="The cache entries on the command line",
        entry=describe_entry(listed),
        manifest=manifest,
        files=list_files(manifest) if manifest else [],
        users=[(one, compare_pin(one, {key: listed})) for one in await _describe(context) if one.key == key],
        pin_texts=PIN_TEXTS,
    )


def _open_cache(context: ConsoleContext) -> Cache:
    return Cache(context.crd_cache or find_data_directory())


async def _describe(context: ConsoleContext) -> list[InstanceView]:
    found = {key: context.store.get(*key) for key in context.store.keys(KARMADA)}
    documents = {key: document for key, document in found.items() if isinstance(document, dict)}
    return await context.worker.run("", describe_instances, documents)


def _make_command(cache: Cache, *words: str) -> str:
    return escape(shlex.join(["fleethook", "crds", "--data-dir", str(cache.directory.parent), *words]))
