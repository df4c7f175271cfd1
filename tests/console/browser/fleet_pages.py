"""All pages of a console on a fleet with six faults, recordings, a cache of tarballs and logical clusters."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from fleethook.cluster.store import ObjectKey
from fleethook.engines.dispatch.pages.explain_form import write_choice
from fleethook.model.gvk import GroupKind
from tests.builders import workload
from tests.console.planted_fleet import write_fleet, write_rules
from tests.console.recorded import record_workloads
from tests.serving import EXAMPLES

_HOOK: Final = ObjectKey(
    "", GroupKind("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"), "", "unreadable"
)
_CELL: Final = {"namespace": "default", "name": "orders-web", "subject": "YurtAppSet", "kind": "Deployment"}
PAGES: Final = {
    "overview": "/",
    "overriders": "/overriders",
    "overriders-pool": f"/overriders/pool?{urlencode({**_CELL, 'name': 'cart-web', 'pool': 'beijing-04'})}",
    "overriders-pool-finding": f"/overriders/pool?{urlencode({**_CELL, 'pool': 'beijing-07'})}",
    "overriders-overrider": "/overriders/overrider?namespace=default&name=orders-web",
    "dispatch": "/dispatch",
    "dispatch-explained": f"/dispatch?{urlencode({'choice': write_choice(_HOOK), 'operation': 'CREATE'})}",
    "dispatch-object": f"/dispatch/object?{urlencode({'choice': write_choice(_HOOK)})}",
    "interpreters": "/interpreters",
    "interpreters-playground": "/interpreters/playground",
    "rules": "/rules",
    "rules-rule": f"/rules/rule?{urlencode({'path': '/rules/validate/needs-owner'})}",
    "crds": "/crds",
    "reviews": "/reviews",
    "reviews-review": "/reviews/review?file=reviews.jsonl&line=2&now=1",
    "search": "/search?q=cart",
    "not-found": "/overriders/overrider?namespace=default&name=nothing",
}
"""The pages by the name of their picture."""


def fill_fleet(directory: Path) -> list[Any]:
    """Write the objects and recordings into a directory, and return the arguments of a console on them."""
    manifests, records = directory / "manifests", directory / "records"
    manifests.mkdir()
    write_fleet(manifests)
    # The caller may have an event loop already.
    with ThreadPoolExecutor(1) as executor:
        executor.submit(asyncio.run, record_workloads(records, workload(owners=[]))).result()
    # The third workspace has a fault of its own.
    logical_clusters = [
        word for name in ("ws1", "ws2") for word in ("-f", str(EXAMPLES / "kcp-widgets" / f"{name}.yaml"))
    ]
    return [
        manifests,
        *logical_clusters,
        "--records",
        str(records),
        "--crd-cache",
        str(directory / "cache"),
        "--rules",
        str(write_rules(directory)),
    ]


def settle(page: Any) -> None:
    """Wait until the parts of a page that arrive later are there, but for those that update again and again."""
    page.wait_for_load_state("load")
    # Several parts of a page may wait for results.
    page.locator("[data-hx-trigger^='load delay:1s']").first.wait_for(state="detached")
    if page.locator("textarea[data-yaml-editor], textarea[data-editor]").count():
        page.locator(".editor").first.wait_for()
