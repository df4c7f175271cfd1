"""Cost of checking an overrider, or an edit of its subject, with thousands of node pools, and its longest slice.

python -m benchmarks.engines.scale_checks POOLS
"""

import asyncio
import copy
import json
import sys
import threading
import time
from typing import Any, Self

import uvloop

from benchmarks.engines import scale_objects as objects
from fleethook.app import create_app
from fleethook.model import admission
from fleethook.model.openyurt import GROUP
from fleethook.settings import Settings
from fleethook.work.threads_and_gc import settle_garbage_collector
from tests.asgi_client import call

OVERRIDERS = "/validate-apps-openyurt-io-v1alpha1-yurtappoverrider"
SETS = "/validate-apps-openyurt-io-v1alpha1-yurtappset"
REPEATED = 3


def review(document: dict[str, Any], old: dict[str, Any] | None = None) -> bytes:
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": "UPDATE" if old else "CREATE",
        "kind": {"group": GROUP, "version": "v1alpha1", "kind": document["kind"]}, "object": document, "oldObject": old,
        "name": document["metadata"]["name"], "namespace": document["metadata"]["namespace"],
    }  # fmt: skip
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def each_pool(pools: int) -> dict[str, Any]:
    """Return an overrider with an entry for each pool, so that no two pools share a plan."""
    made = objects.overrider(0)
    items = [
        [{"replicas": at % 7 + 1}, {"image": {"containerName": "app", "imageClaim": f"registry.example.com/app:{at}"}}]
        for at in range(pools)
    ]
    return made | {"entries": [{"pools": [objects.pool_name(at)], "items": one} for at, one in enumerate(items)]}


class Decoding:
    """Counts the CPU time that the event loop spends on decoding objects."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._decode = admission._decode  # noqa: SLF001 - the only place that decodes the objects of a review

    def __enter__(self) -> Self:
        admission._decode = self._timed  # type: ignore[assignment]  # noqa: SLF001 - as above
        return self

    def __exit__(self, *_: object) -> None:
        admission._decode = self._decode  # noqa: SLF001 - as above

    def _timed(self, raw: Any) -> Any:
        before = time.thread_time()
        try:
            return self._decode(raw)
        finally:
            if threading.current_thread() is threading.main_thread():
                self.seconds += time.thread_time() - before


async def measure_check(app: Any, path: str, body: bytes, pools: int) -> dict[str, float]:
    """Return the CPU time of a check, and its longest slices: CPU time between two turns of the event loop."""
    slices: list[tuple[float, float]] = []
    done = False

    async def watch(decoding: Decoding) -> None:
        last, decoded = time.thread_time(), decoding.seconds
        while not done:
            await asyncio.sleep(0)
            last, before = time.thread_time(), last
            decoded, decoded_before = decoding.seconds, decoded
            slices.append((last - before, decoded - decoded_before))

    with Decoding() as decoding:
        watching = asyncio.create_task(watch(decoding))
        await asyncio.sleep(0)
        started = time.thread_time()
        answer = await call(app, path, body)
        spent = time.thread_time() - started
        done = True
        await watching
    assert answer.json()["response"]["allowed"], answer.body
    return {
        "ms_per_pool": spent / pools * 1e3,
        "slice_ms": max(whole for whole, _ in slices) * 1e3,
        "undecoded_ms": max(whole - decoded for whole, decoded in slices) * 1e3,
        "body_ms": decoding.seconds * 1e3,
    }


async def measure(pools: int) -> None:
    app = create_app(Settings(engines=frozenset({"overrider"})), log=None)
    subject = objects.subject(0, pools)
    app.store.put(subject)
    settle_garbage_collector()
    cases = {"an overrider": (OVERRIDERS, review(objects.overrider(0)))}
    cases["an overrider with an entry for each pool"] = (OVERRIDERS, review(each_pool(pools)))
    edited = copy.deepcopy(subject)
    edited["spec"]["revisionHistoryLimit"] = 5
    cases["an edit of the subject"] = (SETS, review(edited, subject))
    for name, (path, body) in cases.items():
        if path == SETS:
            app.store.put(objects.overrider(0))
        found = [await measure_check(app, path, body, pools) for _ in range(REPEATED)]
        best = {key: min(one[key] for one in found) for key in found[0]}
        print(json.dumps({"check": name, "pools": pools, **best}), flush=True)


if __name__ == "__main__":
    uvloop.run(measure(int(sys.argv[1])))
