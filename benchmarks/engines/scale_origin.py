"""Replaces an apiserver, in its own process: lists, watches, patches and calls the webhook, over a socket.

It makes most objects on request and keeps only changed ones, so that it serves a fleet of any size. A frame is a length
and MessagePack.
"""

import asyncio
import base64
import itertools
import json
import sys
from typing import Any

import msgspec

from benchmarks.engines import scale_objects as objects
from benchmarks.engines.scale_objects import Size, Workloads
from fleethook.patch import apply, merge_patch

PATHS = {"deployments": "/mutate-apps-v1-deployment"}


def frame(message: Any) -> bytes:
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(4, "big") + body


async def read_frame(reader: asyncio.StreamReader) -> Any:
    length = int.from_bytes(await reader.readexactly(4), "big")
    return msgspec.msgpack.decode(await reader.readexactly(length))


class Origin:
    """The objects and the only client."""

    def __init__(self, size: Size, writer: asyncio.StreamWriter) -> None:
        self._size = size
        self._writer = writer
        self._workloads = Workloads(size)
        self._changed: dict[str, bytes] = {}
        self._version = 1
        self._reviews = itertools.count(1)
        self._answers: dict[int, asyncio.Future[bytes]] = {}
        self.counts: dict[str, int] = {}

    # Stored objects.

    def _items(self, plural: str) -> int:
        return {
            "deployments": self._size.workloads, "yurtappsets": self._size.subjects,
            "yurtappoverriders": self._size.subjects, "nodepools": self._size.pools,
        }.get(plural, 0)  # fmt: skip

    def _text(self, plural: str, at: int) -> bytes:
        path = self._path(plural, at)
        if path in self._changed:
            return self._changed[path]
        if plural == "deployments":
            return self._workloads.text(*divmod(at, self._size.pools))
        if plural == "yurtappsets":
            return json.dumps(objects.subject(at, self._size.pools)).encode()
        made = objects.overrider(at) if plural == "yurtappoverriders" else objects.node_pool(at)
        return json.dumps(made).encode()

    def _path(self, plural: str, at: int) -> str:
        if plural == "deployments":
            number, pool = divmod(at, self._size.pools)
            name = objects.workload_name(number, pool)
        else:
            number, name = at, objects.subject_name(at)
        return f"{objects.namespace_of(number)}/{plural}/{name}"

    def _find(self, path: str) -> tuple[str, int] | None:
        """Return plural and number of the object with a path."""
        *_, plural, name = path.split("/")
        digits = [part for part in name.split("-") if part.isdecimal()]
        if plural == "deployments" and len(digits) == 2:
            return plural, int(digits[0]) * self._size.pools + int(digits[1])
        return (plural, int(digits[0])) if len(digits) == 1 else None

    # Requests.

    async def handle(self, message: list[Any]) -> None:
        if message[1] == "answer":
            self._answers.pop(message[0]).set_result(message[2])
            return
        number, method, path, query, body = message
        served = "/apps.openyurt.io/v1beta" not in path
        status, answer = await self.answer(method, path, query or {}, body) if served else (404, b"{}")
        self._writer.write(frame([number, "done", status, answer]))

    async def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, bytes]:
        verb = (
            f"{method} {path.split('/')[-2 if self._find(path) else -1]}{'/status' if path.endswith('/status') else ''}"
        )
        self.counts[verb] = self.counts.get(verb, 0) + 1
        if path == "/counts":
            counts, self.counts = self.counts, {}
            return 200, json.dumps(counts).encode()
        if path.endswith("/edit"):
            return 200, self._edit(int(path.split("/")[1]), body)
        if method == "POST" or "/events" in path:
            return 201, b"{}"
        if method == "PATCH":
            return await self._patch(path, body, dry="dryRun" in query)
        found = self._find(path)
        if found is not None:
            return 200, self._text(*found)
        return 200, self._list(path, query)

    def _list(self, path: str, query: dict[str, str]) -> bytes:
        parts = path.split("/")
        plural = parts[-1]
        start, limit = int(query.get("continue") or 0), int(query.get("limit") or 100_000)
        numbers = range(start, min(self._items(plural), start + limit))
        if selector := query.get("fieldSelector"):
            numbers = [int(selector.rpartition("-")[2])]
        elif "namespaces" in parts:
            wanted = parts[-2]
            numbers = [at for at in range(self._items(plural)) if objects.namespace_of(at) == wanted]
        more = "" if "namespaces" in parts or start + limit >= self._items(plural) else str(start + limit)
        head = json.dumps({"resourceVersion": str(self._version), "continue": more}).encode()
        return b'{"metadata":' + head + b',"items":[' + b",".join(self._text(plural, at) for at in numbers) + b"]}"

    def _edit(self, number: int, body: dict[str, Any]) -> bytes:
        """Edit the overrider of a subject as a user does; the edit is already validated."""
        self._version += 1
        known = json.loads(self._text("yurtappoverriders", number))
        made = objects.overrider(number, tag=body["tag"], version=self._version)
        made["metadata"]["generation"] = known["metadata"]["generation"] + 1
        self._store("yurtappoverriders", number, {**made, "status": known.get("status", {})})
        return b"{}"

    def _store(self, plural: str, at: int, document: dict[str, Any]) -> bytes:
        text = json.dumps(document).encode()
        self._changed[self._path(plural, at)] = text
        self._writer.write(frame([0, "event", plural, b'{"type":"MODIFIED","object":' + text + b"}"]))
        return text

    async def _patch(self, path: str, body: Any, *, dry: bool) -> tuple[int, bytes]:
        found = self._find(path.removesuffix("/status"))
        assert found is not None, path
        plural, at = found
        before = json.loads(self._text(plural, at))
        after = apply(before, body) if isinstance(body, list) else merge_patch(before, body)
        if plural in PATHS:
            after = apply(after, await self._admit(plural, after, before))
        if before["metadata"].get("generation") and before.get("spec") != after.get("spec"):
            after["metadata"] = {**after["metadata"], "generation": before["metadata"]["generation"] + 1}
        if dry:
            return 200, json.dumps(after).encode()
        self._version += 1
        after["metadata"] = {**after["metadata"], "resourceVersion": str(self._version)}
        return 200, self._store(plural, at, after)

    async def _admit(self, plural: str, after: dict[str, Any], before: dict[str, Any]) -> list[Any]:
        number = -next(self._reviews)
        self._answers[number] = future = asyncio.get_running_loop().create_future()
        body = objects.update_review(after["kind"], after, before)
        self._writer.write(frame([number, "review", PATHS[plural], body]))
        response = json.loads(await future)["response"]
        assert response["allowed"], response
        return json.loads(msgspec.json.encode(_patch_of(response)))


def _patch_of(response: dict[str, Any]) -> Any:
    return json.loads(base64.b64decode(response["patch"])) if response.get("patch") else []


async def serve(path: str, size: Size) -> None:
    ended = asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        origin = Origin(size, writer)
        tasks = set()
        try:
            while True:
                task = asyncio.create_task(origin.handle(await read_frame(reader)))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        except asyncio.IncompleteReadError:
            ended.set()

    async with await asyncio.start_unix_server(connected, path, limit=1 << 26):
        print("serving", flush=True)
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], Size(int(sys.argv[2]), int(sys.argv[3]))))
