"""Background work of the server from start to shutdown: following manifests or an apiserver."""

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Final

from fleethook.cluster.followed_cluster import Cluster
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.work.garbage import settle_garbage_collector
from fleethook.work.threads import favour_event_loop

_log: Final = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def follow_manifests(source: ManifestSource, *, changed: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Load the manifests, then follow their changes within the context.

    Args:
        source: The manifests.
        changed: Awaited after the first load and after each change.
    """
    gc.disable()
    source.load()
    await changed()
    favour_event_loop()
    settle_garbage_collector()
    stop = asyncio.Event()
    follower = asyncio.create_task(source.follow(stop, changed=changed))
    try:
        yield
    finally:
        stop.set()
        await follower


def hide_cancelled_requests() -> None:
    """Let uvicorn log no traceback for requests that a shutdown ends: after its time limit, or at a second signal."""
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)


@contextlib.asynccontextmanager
async def follow_cluster(
    cluster: Cluster,
    *,
    ended: "Ended",
) -> AsyncIterator[None]:
    """Connect to an apiserver, and follow its objects within the context.

    Args:
        cluster: The apiserver.
        ended: Called if a background task fails.
    """
    async with cluster.connection, contextlib.AsyncExitStack() as tasks:
        if cluster.cache is not None:
            await tasks.enter_async_context(cluster.cache)

        async def report_sync() -> None:
            # Do not wait for kinds that cannot be read. Their problem may last for days.
            await cluster.source.wait_tried()
            settle_garbage_collector()
            await cluster.source.wait_synced()
            _log.info("all resources are read", extra={"fields": {"host": cluster.connection.host}})

        gc.disable()
        await tasks.enter_async_context(run_in_background(cluster.source.run(), name="source", ended=ended))
        await tasks.enter_async_context(run_in_background(report_sync(), name="first sync", ended=ended))
        yield


Ended = Callable[[str], None]
"""Takes the reason why a background task failed, as text."""


@contextlib.asynccontextmanager
async def run_in_background(work: Coroutine[Any, Any, None], *, name: str, ended: Ended) -> AsyncIterator[None]:
    """Run a task within the context, and cancel it at the end.

    Only a defect makes the task fail earlier. The process then keeps answering from its last known objects, and
    ``/healthz`` reports that it needs a restart.

    Args:
        work: The task; it runs until cancelled.
        name: Name of the task, for the log and ``/healthz``.
        ended: Called with the error if the task fails.
    """

    def report(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("background task %s failed: restart this process", name, exc_info=error)
            ended(f"{name}: {type(error).__name__}: {error}")

    task = asyncio.create_task(work, name=name)
    task.add_done_callback(report)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
