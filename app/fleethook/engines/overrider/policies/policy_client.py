"""Requests about policies to kube-apiserver, and a watch of them.

Due to the watch, a pass over current policies needs no request.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, NamedTuple

import msgspec

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.connection import Connection
from fleethook.cluster.kubernetes.kubernetes_source import KubernetesSource
from fleethook.cluster.kubernetes.list_reader import Reader
from fleethook.cluster.kubernetes.resources import WatchedResource, decode_metadata
from fleethook.cluster.registration.condition_writer import ConditionClient
from fleethook.cluster.registration.match_conditions import Selection, SubjectName
from fleethook.cluster.registration.server_side_apply import apply_object, get_object, read_owner
from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.engines.overrider.policies.documents import count_places
from fleethook.engines.overrider.policies.mode import COMPILED_LABEL, OVERRIDER_ANNOTATION, serves_policies
from fleethook.model.json import JSONObject, as_object

FIELD_MANAGER: Final = "fleethook-policies"
_API: Final = "/apis/admissionregistration.k8s.io/v1"
_BINDINGS: Final = f"{_API}/mutatingadmissionpolicybindings"
_POLICIES: Final = f"{_API}/mutatingadmissionpolicies"
_COLLECTIONS: Final = {"MutatingAdmissionPolicyBinding": _BINDINGS, "MutatingAdmissionPolicy": _POLICIES}
_NOT_FOUND: Final = 404


class _Metadata(msgspec.Struct):
    """The members of an object that this client reads. A spec has up to 100 kB, which the decoder skips."""

    name: str
    labels: dict[str, str]
    annotations: dict[str, str] | None = None


class _Listed(msgspec.Struct):
    metadata: _Metadata


class _List(msgspec.Struct):
    items: list[_Listed]


_decode_list: Final = msgspec.json.Decoder(_List).decode


class AppliedObject(NamedTuple):
    """An object of a policy in the cluster."""

    path: str
    uid: str
    """The uid of its overrider."""
    overrider: str = ""
    """The namespace and name of its overrider, ``NAMESPACE/NAME``."""


class PolicyClient:
    """Applies, finds and deletes the objects of compiled overriders. All methods raise APIError, UnreachableError."""

    def __init__(self, connection: Connection, *, owner: str = "") -> None:
        """Create a client of the apiserver behind ``connection``.

        Args:
            connection: Sends the requests.
            owner: Name of the ClusterRole with which the garbage collector deletes the objects, ``""`` for none.
        """
        self._connection: Final = connection
        self._owner: Final = owner

    async def is_served(self) -> bool:
        """Return whether the apiserver serves policies in v1."""
        found = await get_object(self._connection, _API)
        return found is not None and serves_policies(found)

    async def apply(self, objects: Iterable[JSONObject]) -> list[bytes]:
        """Apply objects in their order, and return them as stored. Fields of other managers are taken over.

        If the owner does not exist, this raises APIError: nothing would ever delete the objects.
        """
        owners = await read_owner(self._connection, self._owner)
        stored = []
        for document in objects:
            owned = {**document, "metadata": {**document["metadata"], **owners}}
            stored.append(await apply_object(self._connection, path_of(document), owned, manager=FIELD_MANAGER))
        return stored

    async def find(self, uid: str = "") -> list[AppliedObject]:
        """Return the applied objects of the overrider with a uid, or of all overriders; the bindings come first."""
        return [one for place in (_BINDINGS, _POLICIES) for one in await self._list(place, uid)]

    async def _list(self, place: str, uid: str) -> list[AppliedObject]:
        selector = f"{COMPILED_LABEL}={uid}" if uid else COMPILED_LABEL
        try:
            answer = _decode_list(await self._connection.request("GET", place, query={"labelSelector": selector}))
        except APIError as error:
            if error.code == _NOT_FOUND:
                return []  # The apiserver does not serve the resource.
            raise
        return [
            AppliedObject(
                f"{place}/{one.metadata.name}",
                one.metadata.labels[COMPILED_LABEL],
                (one.metadata.annotations or {}).get(OVERRIDER_ANNOTATION, ""),
            )
            for one in answer.items
        ]

    async def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; missing ones are no error."""
        for path in paths:
            try:
                await self._connection.request("DELETE", path)
            except APIError as error:
                if error.code != _NOT_FOUND:
                    raise

    async def delete_all(self, uid: str, *, keep: Collection[str] = ()) -> None:
        """Delete the objects of an overrider whose paths are not in ``keep``, the bindings first."""
        found = await self.find(uid)
        await self.delete(one.path for one in found if one.path not in keep)

    async def unbind(self, uid: str) -> bool:
        """Delete the bindings of an overrider, so that its policies stop; return whether there were any."""
        found = await self._list(_BINDINGS, uid)
        await self.delete([one.path for one in found])
        return bool(found)

    async def dry_run(self, plural: str, workload: JSONObject) -> JSONObject:
        """Return the workload that the apiserver would store at its creation."""
        path = f"/apis/apps/v1/namespaces/{workload['metadata']['namespace']}/{plural}"
        made: JSONObject = await self._connection.json("POST", path, query={"dryRun": "All"}, body=workload)
        return made


def path_of(document: JSONObject) -> str:
    """Return the path of an object of a compilation."""
    return f"{_COLLECTIONS[document['kind']]}/{document['metadata']['name']}"


# The configuration was deleted or changed after it was read.
_CONFLICTS: Final = (404, 409)
_MAX_TRIES: Final = 5
# Apiservers follow the webhook configuration by a watch, usually within milliseconds.
_WATCH_SECONDS: Final = 2.0


class Removal(NamedTuple):
    """The result of a removal."""

    subjects: tuple[SubjectName, ...]
    """The subjects whose workloads needed no webhook before."""
    objects: tuple[AppliedObject, ...]
    """The deleted bindings and policies, in their order."""
    left: tuple[AppliedObject, ...]
    """Objects that exist afterwards, because a leader has applied them again."""


async def remove_policies(
    policies: PolicyClient, conditions: ConditionClient, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> Removal:
    """End the exemptions from the webhook, then delete the bindings, then the policies.

    Args:
        policies: Finds and deletes the objects.
        conditions: Reads and writes the match conditions of the webhooks.
        sleep: Waits for a number of seconds.

    Raises:
        APIError: The apiserver refuses a request.
        UnreachableError: The apiserver does not respond.
    """
    subjects = await _end_exemptions(conditions)
    if subjects:
        # Without a policy, an exempt update of a rendered workload would lose its overrides.
        await sleep(_WATCH_SECONDS)
    objects = await policies.find()
    await policies.delete(one.path for one in objects)
    return Removal(tuple(sorted(subjects)), tuple(objects), tuple(await policies.find()))


async def _end_exemptions(conditions: ConditionClient) -> frozenset[SubjectName]:
    """Return the subjects that were exempt."""
    for attempt in range(_MAX_TRIES):
        registered = await conditions.read()
        listed = None if registered is None else registered.listed
        if registered is None or listed is None or not listed.covered:
            return frozenset()
        closed, opened, covered, namespaces = listed
        wanted = Selection(closed | (covered - opened), opened, frozenset(), namespaces)
        try:
            await conditions.write(registered, wanted, announcements=registered.announcements)
        except APIError as error:
            if error.code not in _CONFLICTS or attempt == _MAX_TRIES - 1:
                raise
        else:
            return covered
    return frozenset()


def _watched(plural: str, kind: str) -> WatchedResource:
    return WatchedResource("admissionregistration.k8s.io", "v1", plural, kind, decode_metadata, COMPILED_LABEL)


POLICIES: Final = _watched("mutatingadmissionpolicies", "MutatingAdmissionPolicy")
BINDINGS: Final = _watched("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding")
_BY_KIND: Final = {one.kind: one for one in (POLICIES, BINDINGS)}
_GROUP_KINDS: Final = tuple(one.group_kind for one in _BY_KIND.values())


class Version(NamedTuple):
    """An object of a policy, and the version of its spec."""

    key: ObjectKey
    generation: int


class PolicyWatch:
    """The metadata of all policies and bindings with `COMPILED_LABEL`, as kube-apiserver has them.

    It sends no request before the first `read`: an installation without policies needs no rights for them.
    """

    def __init__(self, reader: Reader, *, absent_seconds: float) -> None:
        """Prepare.

        Args:
            reader: The connection to the apiserver.
            absent_seconds: Seconds between two requests while the apiserver does not serve policies.
        """
        self._store: Final = Store()
        self._source: Final = KubernetesSource(
            tuple(_BY_KIND.values()), reader, self._store, absent_seconds=absent_seconds
        )
        self._needed: Final = asyncio.Event()

    async def run(self, *, changed: Callable[[str], None], listed: Callable[[], None]) -> None:
        """Watch from the first `read` on, until cancelled.

        Args:
            changed: Called with the uid of an overrider after each change of one of its objects.
            listed: Called after each complete list, and when the apiserver stops to serve policies.
        """
        for kind in _GROUP_KINDS:
            self._source.informer(kind).noted = listed
        end = self._store.subscribe(lambda _key, before, after: changed(_find_uid(after or before)))
        try:
            await self._needed.wait()
            await self._source.run()
        finally:
            end()

    async def read(self) -> str:
        """Wait for the first list; return the reason why policies or bindings cannot be read, ``""`` if they were."""
        self._needed.set()
        await self._source.wait_tried()
        return self._source.missing(_GROUP_KINDS)

    @property
    def is_served(self) -> bool:
        """Whether the apiserver serves policies and bindings; before the first list, it is assumed to."""
        return not any(self._source.informer(kind).absent for kind in _GROUP_KINDS)

    def learn(self, kind: str, answer: bytes) -> Version:
        """Store an object as the apiserver returned it for a write, and return its version."""
        resource = _BY_KIND[kind]
        document = resource.decode(answer)
        key = self._source.informer(resource.group_kind).learn(document)
        return Version(key, _read_generation(document))

    def has(self, versions: Iterable[Version]) -> bool:
        """Return whether all objects exist in these versions."""
        return all(self._find_generation(key) == generation for key, generation in versions)

    def _find_generation(self, key: ObjectKey) -> int | None:
        stored = self._store.get(*key)
        return None if stored is None else _read_generation(stored)

    def count_places(self) -> Counter[str]:
        """Return the places that the policies of each overrider take of the limit, by its uid."""
        places: Counter[str] = Counter()
        for document in self._store.each("", POLICIES.group_kind):
            places[_find_uid(document)] += count_places(as_object(as_object(document).get("metadata")))
        return places


def _find_uid(document: Stored | None) -> str:
    """Return the uid of the overrider of an object."""
    metadata = as_object(as_object(document).get("metadata"))
    return str(as_object(metadata.get("labels")).get(COMPILED_LABEL) or "")


def _read_generation(document: JSONObject) -> int:
    generation = document["metadata"].get("generation")
    return generation if isinstance(generation, int) else 0
