"""Prometheus metrics of reviews, and the gauges of the store and the certificate. Engines have metrics of their own."""

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from fleethook.cluster.store import PartState
from fleethook.model.gvk import GroupKind
from fleethook.server.metrics.families import Counts, Gauges, Observations

# A review takes some 0.1 ms; an apiserver gives up after timeoutSeconds, 30 s at most.
SECONDS_BUCKETS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip


# The labels of an exemplar may have 128 characters (OpenMetrics): two names, a trace id of 32, and a request id of this
# size. A longer request id from a client is cut.
_MAX_REQUEST_ID: Final = 128 - len("trace_id") - 32 - len("request_id")


OTHER: Final = "other"
"""The label value of all names beyond a limit."""


class FirstNames:
    """Limits the values of a label that users choose: only the first names, for the life of the process, are values."""

    def __init__(self, limit: int) -> None:
        """Prepare for at most ``limit`` names."""
        self._limit: Final = limit
        self._known: Final[set[str]] = set()

    def find_label(self, name: str) -> str:
        """Return the label value of a name, without adding one."""
        return name if name in self._known else OTHER

    def add_label(self, name: str) -> str:
        """Return the label value of a name; add it if there is room."""
        if name not in self._known and len(self._known) < self._limit:
            self._known.add(name)
        return self.find_label(name)


class Metrics:
    """The metrics of one server process, in a registry of their own."""

    def __init__(self) -> None:
        """Prepare."""
        self.registry: Final = CollectorRegistry()
        self._reviews: Final = Counts(
            "fleethook_reviews",
            "Answered reviews, by route, operation and outcome.",
            ["route", "operation", "outcome"],
        )
        self._seconds: Final = Observations(
            "fleethook_review_duration_seconds",
            "Time from the last byte of a review to its answer. Exemplars have the trace id.",
            ["route"],
            buckets=SECONDS_BUCKETS,
        )
        self.registry.register(self._reviews)
        self.registry.register(self._seconds)
        self.in_flight = 0
        self.registry.register(
            Gauges("fleethook_reviews_in_flight", "Reviews that are being answered.", lambda: [({}, self.in_flight)])
        )

    def count_review(
        self, route: str, operation: str, outcome: str, *, seconds: float, request_id: str, trace_id: str = ""
    ) -> None:
        """Count one answered review; ``trace_id`` is that of its exported span."""
        self._reviews.add((route, operation, outcome))
        exemplar = {"trace_id": trace_id, "request_id": request_id[:_MAX_REQUEST_ID]} if trace_id else None
        self._seconds.add((route,), seconds, exemplar=exemplar)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics as text and its content type, in the format that ``accept`` asks for."""
        return exposition(self.registry, accept)


def exposition(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Return the metrics of a registry as text and its content type, in the format that ``accept`` asks for."""
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def certificate_gauge(read: Callable[[], float]) -> Collector:
    """Return the gauge of the serving certificate; ``read`` returns its end in seconds since the epoch."""
    text = "End of the serving certificate in use, in seconds since the epoch."
    return Gauges("fleethook_certificate_expiry_timestamp_seconds", text, lambda: [({}, read())])


def leader_gauges(is_leading: Callable[[], bool], queued: Callable[[], int]) -> list[Collector]:
    """Return the gauges of a process that competes for a Lease; ``queued`` counts the objects of its controllers."""
    return [
        Gauges(
            "fleethook_leader",
            "1 in the process that holds the Lease and runs controllers.",
            lambda: [({}, float(is_leading()))],
        ),
        Gauges(
            "fleethook_controller_queue_length",
            "Objects that wait for the controller.",
            lambda: [({}, queued())],
        ),
    ]


def store_gauges(
    counts: Callable[[], dict[GroupKind, int]], parts: Callable[[], Iterator[PartState]]
) -> Iterator[Collector]:
    """Yield the gauges of a store.

    Args:
        counts: Returns the number of objects by kind.
        parts: Returns the state of each part of the source.
    """

    def objects() -> Iterator[tuple[dict[str, str], float]]:
        for group_kind, count in counts().items():
            yield {"group": group_kind.group, "kind": group_kind.kind}, count

    def seconds() -> Iterator[tuple[dict[str, str], float]]:
        for part in parts():
            if part.age is not None:
                yield {"source": part.name}, part.age

    def read_failing() -> Iterator[tuple[dict[str, str], float]]:
        for part in parts():
            yield {"source": part.name}, float(part.failing)

    yield Gauges("fleethook_store_objects", "Objects in the store.", objects, "group", "kind")
    yield Gauges(
        "fleethook_store_age_seconds",
        "Seconds since a part of the source last confirmed the store: by a list, an event or a bookmark.",
        seconds,
        "source",
    )
    yield Gauges(
        "fleethook_store_source_failing",
        "1 if a part of the source cannot be read now, so that its last good state is used.",
        read_failing,
        "source",
    )
