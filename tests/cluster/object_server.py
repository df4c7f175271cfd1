"""A kube-apiserver in memory: objects by path, for tests that need no real one.

`tests/conformance/fakes.yaml` has requests whose answers are the same as those of a real kube-apiserver.
"""

import asyncio
import contextlib
import copy
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.apiserver_connection import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from fleethook.patch import apply, merge_patch
from tests.apiserver_rules import (
    ResourcePath,
    already_exists,
    check_annotations,
    check_created,
    check_event,
    check_stored,
    check_type,
    invalid,
    not_found,
    parse_path,
    unserved,
)

Document = dict[str, Any]
DELETED_AT = "2026-01-01T00:00:00Z"
# kube-apiserver, pkg/registry/*/strategy.go: AllowCreateOnUpdate, and AllowUnconditionalUpdate, which is false for
# custom resources, too; and the kinds without a generation.
_CREATED_BY_PUT = ("leases", "events")
_UNCONDITIONAL = ("secrets", "configmaps", "deployments", "statefulsets", "events", "namespaces")
_WITHOUT_GENERATION = ("secrets", "configmaps", "leases", "events", "namespaces", "clusterroles")
_SYSTEM = ("namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp")


class ObjectServer:
    """Objects by path; takes the place of a `Connection`.

    Attributes:
        objects: The stored objects.
        requests: The method and path of each request.
        error: An error for all requests, None to serve them.
        failures: Errors for the next writes.
        before_write: Functions to call before the next writes, for changes by another writer.
        admit: Changes each written object before it is stored, but no status: defaults, webhooks, pruning. Its arguments
            are the stored object, None if there is none, and the written one.
        is_served: Returns whether the resource of a path is served.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Document] = {}
        self.requests: list[tuple[str, str]] = []
        self.error: Exception | None = None
        self.failures: list[Exception] = []
        self.before_write: list[Callable[[], Any]] = []
        self.admit: Callable[[Document | None, Document], Document] = lambda _, written: written
        self.is_served: Callable[[str], bool] = lambda _path: True
        self._applied: dict[tuple[str, str], Document] = {}
        self._watches: dict[asyncio.Queue[bytes | None], tuple[str, Mapping[str, str]]] = {}
        # A real one has stored objects of its own before.
        self._version = 100

    # Methods for tests.

    def store(self, path: str, document: Document) -> None:
        """Store an object with a new resourceVersion, as another writer does."""
        former = self.objects.get(path.removesuffix("/status"))
        metadata = {"uid": f"uid-{self._version}", **_read_system(former), **document.get("metadata", {})}
        self._keep(path, former, {**copy.deepcopy(document), "metadata": copy.deepcopy(metadata)})

    def remove(self, path: str) -> None:
        """Delete an object, as another client does, whether or not it has finalizers."""
        self._version += 1
        former = self.objects.pop(path)
        former["metadata"]["resourceVersion"] = str(self._version)
        self._notify("DELETED", path, former)

    # Requests.

    async def json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        **_timeout: float,
    ) -> Any:
        await asyncio.sleep(0)
        self.requests.append((method, path))
        if self.error is not None:
            raise self.error
        return copy.deepcopy(self.answer(method, path, query=query or {}, body=body, content_type=content_type))

    post = json

    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        return json.dumps(await self.json(method, path, **rest)).encode()

    @contextlib.asynccontextmanager
    async def lines(
        self,
        path: str,
        *,
        query: Mapping[str, str],
        idle: float,  # noqa: ARG002 - as the connection's
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        if not self.is_served(path):
            raise unserved(path)
        events: asyncio.Queue[bytes | None] = asyncio.Queue()
        since = int(query.get("resourceVersion") or 0)
        for place, document in self.objects.items():
            # Changes between the list and this watch.
            if int(document["metadata"]["resourceVersion"]) > since and is_selected(place, document, path, query):
                events.put_nowait(json.dumps({"type": "MODIFIED", "object": document}).encode())
        self._watches[events] = (path, query)
        try:
            yield _read_queue(events)
        finally:
            del self._watches[events]

    def answer(self, method: str, path: str, *, query: Mapping[str, str], body: Any, content_type: str) -> Any:
        """Return the object of a response; raises APIError."""
        if not self.is_served(path):
            raise unserved(path)
        at = parse_path(path)
        if method == "GET":
            return self._read(path, at, query)
        if self.before_write and at.plural != "events":
            self.before_write.pop(0)()
        if self.failures:
            raise self.failures.pop(0)
        dry = "dryRun" in query
        if method == "POST":
            return self._create(path, body, dry=dry)
        target = path.removesuffix("/status")
        former = self.objects.get(target)
        if method == "PATCH" and content_type == APPLY_PATCH:
            return self._apply(target, at, body, query)
        if former is None and (method, at.plural in _CREATED_BY_PUT) == ("PUT", True):
            unversioned = {name: one for name, one in body["metadata"].items() if name != "resourceVersion"}
            return self._create(path.rpartition("/")[0], {**body, "metadata": unversioned}, dry=dry)
        if former is None:
            raise not_found(at)
        if method == "DELETE":
            return self._delete(target, at, former, (body or {}).get("preconditions") or {}, dry=dry)
        after = self._replace(at, body) if method == "PUT" else self._patch(former, body, content_type)
        return self._update(path, at, former, after, dry=dry)

    def _read(self, path: str, at: ResourcePath, query: Mapping[str, str]) -> Any:
        if at.name and path not in self.objects:
            raise not_found(at)
        if at.name:
            return self.objects[path]
        items = [one for place, one in self.objects.items() if is_selected(place, one, path, query)]
        kind = f"{items[0].get('kind', '')}List" if items else "List"
        first, limit = int(query.get("continue") or 0), int(query.get("limit") or 0) or len(items)
        more = {"continue": str(first + limit)} if first + limit < len(items) else {}
        metadata = {"resourceVersion": str(self._version), **more}
        return {"kind": kind, "metadata": metadata, "items": items[first : first + limit]}

    def _create(self, path: str, body: Any, *, dry: bool) -> Document:
        (check_event if path.endswith("/events") else check_created)(path, body)
        at, given = parse_path(path), body["metadata"]
        name = given.get("name") or f"{given['generateName']}{self._version:05}"
        if f"{path}/{name}" in self.objects:
            raise already_exists(at, name)
        check_annotations(at.name_kind(body), {**given, "name": name})
        created = {key: value for key, value in body.items() if key != "status"}
        placed = {"namespace": at.namespace} if at.namespace else {}
        metadata = {**given, **placed, "name": name, "uid": f"uid-{self._version}"}
        created = self.admit(None, {**copy.deepcopy(created), "metadata": metadata})
        return created if dry else self._keep(f"{path}/{name}", None, created)

    def _delete(self, path: str, at: ResourcePath, former: Document, wanted: Mapping[str, str], *, dry: bool) -> Any:
        metadata = former["metadata"]
        for member, field in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
            if wanted.get(field) not in (None, metadata[field]):
                text = f"the {member} in the precondition ({wanted[field]}) does not match the {member} in record"
                raise APIError(409, "Conflict", f'Operation cannot be fulfilled on {at.resource} "{at.name}": {text}')
        if metadata.get("finalizers") and not dry:
            marked = {**metadata, "deletionTimestamp": metadata.get("deletionTimestamp", DELETED_AT)}
            return former if marked == metadata else self._keep(path, former, {**former, "metadata": marked})
        if not dry:
            self.remove(path)
        return {"kind": "Status", "status": "Success", "details": {"name": at.name, "uid": metadata["uid"]}}

    def _replace(self, at: ResourcePath, body: Any) -> Document:
        if not body["metadata"].get("resourceVersion") and at.plural not in _UNCONDITIONAL:
            raise invalid(
                at.resource, at.name, "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"
            )
        return copy.deepcopy(body)

    def _patch(self, former: Document, body: Any, content_type: str) -> Document:
        if content_type == MERGE_PATCH:
            return merge_patch(former, body)
        assert content_type == JSON_PATCH, content_type
        try:
            return apply(former, body)
        except ValueError as error:
            raise APIError(422, "Invalid", "the server rejected our request due to an error in our request") from error

    def _apply(self, path: str, at: ResourcePath, body: Any, query: Mapping[str, str]) -> Document:
        manager = query.get("fieldManager")
        if not manager:
            raise invalid("PatchOptions.meta.k8s.io", "", "fieldManager", "Required value: is required for apply patch")
        check_type(at, body)
        if body["metadata"].get("managedFields") is not None:
            raise APIError(400, "BadRequest", "metadata.managedFields must be nil")
        former, last = self.objects.get(path), self._applied.get((path, manager), {})
        dry = "dryRun" in query
        if former is None:
            made = self._create(path.rpartition("/")[0], body, dry=dry)
        else:
            if query.get("force") != "true" and (field := _find_conflict(former, body, last)):
                raise APIError(409, "Conflict", f'Apply failed with 1 conflict: conflict with "other": {field}')
            made = self._update(path, at, former, _merge_applied(former, body, last), dry=dry)
        if not dry:
            self._applied[path, manager] = copy.deepcopy(body)
        return made

    def _update(self, path: str, at: ResourcePath, former: Document, after: Document, *, dry: bool) -> Document:
        check_stored(at, former, after)
        if at.subresource == "status":
            after = {**former, "status": after.get("status")}
        else:
            kept = {"status": former["status"]} if "status" in former else {}
            after = {**{name: one for name, one in after.items() if name != "status"}, **kept}
            after = self.admit(former, {**after, "metadata": {**after["metadata"], **_read_system(former)}})
        if dry or after == former:
            return after
        path = path.removesuffix("/status")
        if after["metadata"].get("deletionTimestamp") and not after["metadata"].get("finalizers"):
            self.remove(path)
            return after
        return self._keep(path, former, after)

    def _keep(self, path: str, former: Document | None, after: Document) -> Document:
        self._version += 1
        metadata = {**after["metadata"], "resourceVersion": str(self._version)}
        if parse_path(path).plural not in _WITHOUT_GENERATION:
            before = (former or {}).get("metadata", {}).get("generation", 0)
            metadata["generation"] = before + _changes_generation(former, after)
        stored = self.objects[path] = {**after, "metadata": metadata}
        self._notify("MODIFIED" if former else "ADDED", path, stored)
        return stored

    def _notify(self, kind: str, place: str, document: Document) -> None:
        line = json.dumps({"type": kind, "object": document}).encode()
        for events, (path, query) in self._watches.items():
            if is_selected(place, document, path, query):
                events.put_nowait(line)


def is_selected(place: str, document: Document, path: str, query: Mapping[str, str]) -> bool:
    """Return whether a list or watch of a path has an object.

    Label selectors are ``NAME``, ``NAME=VALUE`` and ``NAME in (VALUE,...)``; field selectors are equations.
    """
    at, listed = parse_path(place), parse_path(path)
    if (at.group, at.version, at.plural) != (listed.group, listed.version, listed.plural):
        return False
    if listed.namespace not in ("", at.namespace):
        return False
    name, equals, value = (query.get("labelSelector") or "").partition("=")
    name, among, values = (name if equals else query.get("labelSelector") or "").partition(" in ")
    labels = document["metadata"].get("labels") or {}
    if name and (name not in labels or (equals and labels[name] != value)):
        return False
    if among and labels[name] not in values.strip("()").replace(" ", "").split(","):
        return False
    terms = [term.split("=", 1) for term in (query.get("fieldSelector") or "").split(",") if term]
    return all(_read_field(document, field) == wanted for field, wanted in terms)


def _read_field(document: Any, field: str) -> Any:
    for member in field.split("."):
        document = (document or {}).get(member)
    return document


def _read_system(former: Document | None) -> Document:
    """Return the members of the metadata that clients do not change."""
    return {name: value for name, value in (former or {}).get("metadata", {}).items() if name in _SYSTEM}


async def _read_queue(events: "asyncio.Queue[bytes | None]") -> AsyncIterator[bytes]:
    while (event := await events.get()) is not None:
        yield event


def _changes_generation(former: Document | None, after: Document) -> bool:
    if former is None or ("deletionTimestamp" in after["metadata"]) > ("deletionTimestamp" in former["metadata"]):
        return True
    parts = [
        {name: one for name, one in each.items() if name not in ("metadata", "status")} for each in (former, after)
    ]
    return parts[0] != parts[1]


def _merge_applied(stored: Any, body: Any, last: Any) -> Any:
    """Return an object after a server-side apply: members that left the configuration are removed.

    Lists of objects with names are maps by name, as in most types. The others are atomic.
    """
    if is_named(stored) and is_named(body):
        parts = [{item["name"]: item for item in one} for one in (stored, body, last if is_named(last) else ())]
        return list(_merge_applied(*parts).values())
    if not isinstance(body, dict) or not isinstance(stored, dict):
        return copy.deepcopy(body)
    former = last if isinstance(last, dict) else {}
    kept = {name: value for name, value in stored.items() if name in body or name not in former}
    return kept | {name: _merge_applied(stored.get(name), value, former.get(name)) for name, value in body.items()}


def is_named(value: Any) -> bool:
    """Return whether a value is a list of objects with names."""
    return isinstance(value, list) and all(isinstance(one, dict) and "name" in one for one in value)


def _find_conflict(stored: Any, body: Any, last: Any, field: str = "") -> str:
    """Return the first field of a configuration that another manager has set to another value."""
    if is_named(stored) and is_named(body):
        parts = [{item["name"]: item for item in one} for one in (stored, body, last if is_named(last) else ())]
        return _find_conflict(*parts, field)
    if not isinstance(body, dict) or not isinstance(stored, dict):
        return field if stored is not None and stored not in (body, last) else ""
    former = last if isinstance(last, dict) else {}
    found = (
        _find_conflict(stored.get(name), value, former.get(name), f"{field}.{name}") for name, value in body.items()
    )
    return next(filter(None, found), "")
