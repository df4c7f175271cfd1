"""Parts of an object: decoding no more of a workload than the user desires takes a fifth less time."""

from typing import Any, TypedDict

import msgspec


class DesiredMeta(TypedDict, total=False):
    """``metav1.ObjectMeta`` but for its managed fields. Fields that are not named here are not decoded."""

    name: Any
    generateName: Any
    namespace: Any
    selfLink: Any
    uid: Any
    resourceVersion: Any
    generation: Any
    creationTimestamp: Any
    deletionTimestamp: Any
    deletionGracePeriodSeconds: Any
    labels: Any
    annotations: Any
    ownerReferences: Any
    finalizers: Any


class Desired(TypedDict, total=False):
    """An object with a spec."""

    apiVersion: Any
    kind: Any
    metadata: DesiredMeta
    spec: Any


class PartiallyDecoded(TypedDict, total=False):
    """An object with a spec whose members are still text."""

    apiVersion: Any
    kind: Any
    metadata: DesiredMeta
    spec: dict[str, msgspec.Raw]


class OutlineMeta(TypedDict, total=False):
    """The members of ``metav1.ObjectMeta`` that log lines and the search for the logical cluster read."""

    generateName: Any
    annotations: Any


class Outline(TypedDict, total=False):
    """An object of any kind."""

    metadata: OutlineMeta | None
