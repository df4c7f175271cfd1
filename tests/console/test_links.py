"""The links between the pages of a fleet with faults: none is broken, and each kind of object leads to the others."""

import asyncio
import html
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urljoin

from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.cluster.store import Store
from fleethook.console.console_server import console_indexes, create_console
from fleethook.console.context import ConsoleContext
from fleethook.console.reviews.review_detail_and_replay import ReviewReplay
from fleethook.console.reviews.review_index import ReviewIndex
from tests.builders import workload
from tests.console.browser.fleet_pages import PAGES
from tests.console.crd_cache import fill_cache
from tests.console.planted_fleet import write_fleet, write_rules
from tests.console.recorded import record_workloads
from tests.console.visits import visit
from tests.waiting import NET

_OTHERS = ("reviews-review", "not-found")
"""Pages that need another build, or do not exist."""
MAX_OF_A_SHAPE = 6
"""Followed links with the same path and parameters: a matrix has 1,200 cells."""
LINKED = {
    ("/", "/overriders"), ("/", "/dispatch/object"), ("/", "/interpreters"), ("/", "/crds"),
    ("/overriders", "/overriders/pool"), ("/overriders", "/overriders/overrider"),
    ("/overriders/pool", "/overriders/overrider"), ("/overriders/pool", "/overriders"), ("/overriders/pool", "/reviews"),
    ("/overriders/overrider", "/overriders"), ("/dispatch", "/dispatch/object"), ("/reviews", "/search"),
    ("/reviews/review", "/search"), ("/search", "/overriders/pool"), ("/search", "/overriders/overrider"),
    ("/crds", "/crds/entry"), ("/crds/entry", "/crds"),
    ("/rules", "/rules/rule"),
}  # fmt: skip


async def open_fleet(directory: Path) -> Any:
    manifests, records = directory / "manifests", directory / "records"
    manifests.mkdir()
    write_fleet(manifests)
    await record_workloads(records, workload(owners=[]))
    store = Store(console_indexes())
    source = ManifestSource([manifests], store)
    source.load()
    reviews = ReviewIndex(records)
    rules = ManifestSource([write_rules(directory)], Store())
    rules.load()
    await asyncio.to_thread(fill_cache, directory / "cache")
    context = ConsoleContext(
        store, source, records=records, reviews=reviews, replay=ReviewReplay(store), rules=rules,
        crd_cache=directory / "cache",
    )  # fmt: skip
    app = create_console(context)
    await wait_without(app, "/attention", "being checked")
    await wait_without(app, "/reviews", "are being read")
    return app


async def wait_without(app: Any, path: str, text: str) -> None:
    """Wait until a page no longer has a text."""
    async with asyncio.timeout(NET):
        while text in (await visit(app, path)).body.decode():
            await asyncio.sleep(0.01)


def find_links(address: str, text: str) -> Iterable[str]:
    hrefs = {html.unescape(one) for one in re.findall(r'<a [^>]*?href="([^"]*)"', text)}
    return sorted(urljoin(address, one) for one in hrefs)


async def test_no_link_is_broken_and_each_kind_of_object_leads_to_the_others(tmp_path: Path) -> None:
    app = await open_fleet(tmp_path)
    found = [one for name, one in PAGES.items() if name not in _OTHERS]
    waiting = [*found, "/search?q=default/demo"]
    texts: dict[str, str] = {}
    shapes: dict[tuple[str, ...], int] = {}
    edges = set[tuple[str, str]]()
    fragments = set[tuple[str, str]]()
    while waiting:
        address = waiting.pop(0)
        if address in texts:
            continue
        path, _, query = address.partition("?")
        answer = await visit(app, path, query=query)
        assert answer.status == 200, address
        texts[address] = answer.body.decode()
        for link in find_links(address, texts[address]):
            target, _, fragment = link.partition("#")
            edges.add((path, target.partition("?")[0]))
            shape = (target.partition("?")[0], *sorted(name for name, _ in parse_qsl(target.partition("?")[2])))
            shapes[shape] = shapes.get(shape, 0) + 1
            if shapes[shape] <= MAX_OF_A_SHAPE:
                waiting.append(target)
                fragments |= {(target, fragment)} if fragment else set()
    assert sorted(LINKED - edges) == []
    assert [one for one in sorted(fragments) if f'id="{one[1]}"' not in texts[one[0]]] == []
