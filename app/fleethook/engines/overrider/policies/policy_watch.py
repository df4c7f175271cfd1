"""Watches the policies of overriders and their bindings, so that a pass over current policies needs no request."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from fleethook.cluster.kubernetes.kubernetes_source import KubernetesSource
from fleethook.cluster.kubernetes.list_reader import Reader
from fleethook.cluster.kubernetes.resources import WatchedResource, decode_metadata
from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.engines.overrider.policies.compilation import COMPILED_LABEL
from fleethook.engines.overrider.policies.documents import count_places
from fleethook.model.json import JSONObject, as_object


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
