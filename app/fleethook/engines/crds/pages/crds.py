"""The section ``/crds``: cache entries, Karmada instances with their pins, one entry, and the diff of two entries."""

import shlex
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse

from fleethook.cluster.followed_cluster import Followed
from fleethook.cluster.kubernetes.resources import KARMADAS
from fleethook.cluster.store import ObjectKey
from fleethook.console.context import ConsoleContext
from fleethook.console.rendering import Context, render, take_page
from fleethook.console.sections import ConsolePage, Section
from fleethook.engines.crds.apply.crd_diff import CRDChange
from fleethook.engines.crds.cache.cache_layout import find_data_directory
from fleethook.engines.crds.cache.entry_directory import TARBALL
from fleethook.engines.crds.cache.entry_state import Listed
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.pages.crd_entries import (
    EntryPage,
    EntryView,
    compare_entries,
    describe_entry,
    inspect_entries,
    list_files,
    read_content,
    read_page,
    select_choices,
)
from fleethook.engines.crds.pages.instances import (
    PIN_TEXTS,
    InstanceView,
    compare_pin,
    describe_instances,
    find_users,
    order_instances,
)
from fleethook.model.formats.text import escape
from fleethook.model.operator import KARMADA

router: Final = APIRouter(prefix="/crds")

PAGE: Final = ConsolePage(Section("/crds", "CRD tarballs", (KARMADA,)), router, followed=Followed(advisory=(KARMADAS,)))

INSTANCES_PER_PAGE: Final = 50
_STATUSES: Final = {Exit.USAGE: 422, Exit.NOT_CACHED: 404, Exit.INTEGRITY: 409}


@router.get("")
async def show_list(request: Request, context: Context, page: int = 1, instances: int = 1) -> HTMLResponse:
    """Show a page of the cache entries, and a page of the instances."""
    cache = _open_cache(context)
    keys = order_instances(context.store.keys(KARMADA))
    shown, paging = take_page(keys, instances, INSTANCES_PER_PAGE)
    here = await _describe(context, shown)
    found, used, problem = await _read_list(context, cache, page, here)
    entries = [describe_entry(one) for one in found.entries]
    return await render(
        request,
        "crds/list.html",
        command=_make_command(cache, "cache", "ls"),
        directory=escape(str(cache.directory)),
        problem=problem,
        found=found,
        entries=entries,
        choices=select_choices(entries),
        rows=[(one, compare_pin(one, used), one.key in used) for one in here],
        pin_texts=PIN_TEXTS,
        instance_total=len(keys),
        instance_page=paging.page,
        instance_pages=paging.pages,
        list_url=lambda entry_page, instance_page: _make_url("", page=entry_page, instances=instance_page),
        entry_url=_entry_url,
    )


async def _read_list(
    context: ConsoleContext, cache: Cache, page: int, instances: list[InstanceView]
) -> tuple[EntryPage, dict[str, Listed], str]:
    """Return a page of entries, the entries of some instances, and the error if the cache cannot be read."""
    try:
        found = await context.worker.run("", read_page, cache, page)
        used = await context.worker.run("", inspect_entries, cache, [one.key for one in instances if one.key])
    except CRDsError as error:
        return EntryPage(), {}, escape(str(error))
    return found, used, ""


@router.get("/entry")
async def show_entry(request: Request, context: Context, key: str = "") -> HTMLResponse:
    """Show one entry with its files, and the instances that use it."""
    cache = _open_cache(context)
    command = _make_command(cache, "cache", "show", key)
    try:
        content = await context.worker.run("", read_content, cache, key)
    except CRDsError as error:
        return await _show_error(request, error, command)
    users = find_users(await _describe(context, order_instances(context.store.keys(KARMADA))), key)
    return await render(
        request,
        "crds/entry.html",
        command=command,
        entry=describe_entry(content.listed),
        manifest=content.manifest,
        files=list_files(content.manifest) if content.manifest else [],
        users=[(one, compare_pin(one, {key: content.listed})) for one in users[:INSTANCES_PER_PAGE]],
        user_total=len(users),
        pin_texts=PIN_TEXTS,
        compare_url=_make_url("/diff", after=key),
    )


@router.get("/diff")
async def show_diff(request: Request, context: Context, before: str = "", after: str = "") -> HTMLResponse:
    """Show the changes between two entries, or the form to choose them."""
    cache = _open_cache(context)
    changes: list[CRDChange] | None = None
    try:
        page = await context.worker.run("", read_page, cache, 1)
        chosen = [one for one in (before, after) if one]
        named = await context.worker.run("", inspect_entries, cache, chosen)
        if len(chosen) > 1:
            changes = await context.worker.run("", compare_entries, cache, before, after)
    except CRDsError as error:
        return await _show_error(request, error, _make_command(cache, "cache", "verify"))
    views = {one.key: describe_entry(one) for one in (*page.entries, *named.values())}
    return await render(
        request,
        "crds/diff.html",
        command=_make_diff_command(cache, views.get(before), views.get(after)),
        before=before,
        after=after,
        chosen=[(title, views[key]) for title, key in (("Before", before), ("After", after)) if key in views],
        choices=select_choices(list(views.values()), before, after),
        left_out=page.total - len(page.entries),
        changes=changes,
        entry_url=_entry_url,
        swap_url=_make_url("/diff", before=after, after=before),
    )


def _open_cache(context: ConsoleContext) -> Cache:
    return Cache(context.crd_cache or find_data_directory())


async def _describe(context: ConsoleContext, keys: Sequence[ObjectKey]) -> list[InstanceView]:
    documents = {key: document for key in keys if isinstance(document := context.store.get(*key), dict)}
    return await context.worker.run("", describe_instances, documents)


async def _show_error(request: Request, error: CRDsError, command: str) -> HTMLResponse:
    status = _STATUSES.get(error.exit, 500 if error.exit is Exit.DISK else 422)
    return await render(
        request, "crds/error.html", command=command, status=status, text=escape(str(error)), title="CRD tarballs"
    )


def _make_url(path: str, **query: object) -> str:
    return f"/crds{path}?{urlencode(query)}"


def _entry_url(key: str) -> str:
    return _make_url("/entry", key=key)


def _make_command(cache: Cache, *words: str) -> str:
    return escape(shlex.join(["fleethook", "crds", "--data-dir", str(cache.directory.parent), *words]))


def _make_diff_command(cache: Cache, before: EntryView | None, after: EntryView | None) -> str:
    """Return the command that compares two entries, or lists them while one is not chosen."""
    if before is None or after is None:
        return _make_command(cache, "cache", "ls")
    # --normalize-dot does not apply to --against, whose unpacked files have normal names already.
    against = cache.path(before.key) / ("" if before.normalizes_dot else TARBALL)
    words = ["--tarball", str(cache.path(after.key) / TARBALL), "--against", str(against)]
    words += ["--normalize-dot"] if after.normalizes_dot else []
    return escape(shlex.join(["fleethook", "crds", "diff", *words]))
