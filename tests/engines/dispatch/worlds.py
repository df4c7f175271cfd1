"""Random logical clusters for property tests: the same names in each, with different objects."""

import copy
import time
from typing import Any, NamedTuple

from hypothesis import strategies as st

from fleethook.cluster.store import Store
from fleethook.engines.dispatch.attributes_and_cluster_annotation import Attributes
from fleethook.engines.dispatch.call.review_response_and_patch import WebhookResponse
from fleethook.engines.dispatch.dispatcher import Dependencies, Dispatcher, DispatchResult
from fleethook.engines.dispatch.errors_and_deadline import Deadline
from fleethook.engines.dispatch.match.equivalent_resources import Equivalent
from fleethook.engines.dispatch.version_conversion import ObjectConverter
from fleethook.engines.dispatch.webhooks.cluster_webhooks import Configurations, RelevantWebhook
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Phase
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource
from fleethook.model.rule_matching import RuleAttributes
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.work.threads_and_gc import run_work
from tests.engines.dispatch.builders import (
    binding,
    configuration,
    definition,
    export,
    namespace,
    request_of,
    review,
    store_of,
    webhook,
    widget,
)
from tests.waiting import NET

CLUSTERS = ("a", "b", "c")


RESOURCES = ("widgets.example.org", "gadgets.example.org")


def some(*values: Any) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)


rules = st.fixed_dictionaries(
    {
        "operations": some("CREATE", "UPDATE", "*"),
        "apiGroups": some("example.org", "*", "apps"),
        "apiVersions": some("v1", "v2", "*"),
        "resources": some("widgets", "widgets/status", "widgets/*", "*", "*/*", "*/status", "gadgets"),
        "scope": st.sampled_from(["*", "Namespaced", "Cluster"]),
    }
)


selectors = st.sampled_from(
    [{}, {}, {"matchLabels": {"of": "a"}}, {"matchExpressions": [{"key": "of", "operator": "NotIn", "values": ["b"]}]}]
)


conditions = st.lists(
    st.sampled_from(
        [
            "true", "false", "object.spec.size > 1", "object.spec.missing == 1", "oldObject == null",
            "request.operation == 'CREATE'", "object.metadata.annotations['kcp.io/cluster'] == 'a'",
        ]
    ),
    max_size=2,
)  # fmt: skip


@st.composite
def hooks(draw: st.DrawFn, place: str) -> dict[str, Any]:
    return webhook(
        draw(st.sampled_from(["one.example.org", "two.example.org"])),
        f"https://hooks.example.org/{place}",
        rules=draw(st.lists(rules, min_size=1, max_size=2)),
        matchPolicy=draw(st.sampled_from(["Exact", "Equivalent"])),
        namespaceSelector=draw(selectors),
        objectSelector=draw(selectors),
        failurePolicy=draw(st.sampled_from(["Fail", "Ignore"])),
        matchConditions=[
            {"name": f"c{number}", "expression": expression} for number, expression in enumerate(draw(conditions))
        ],
    )


@st.composite
def clusters(draw: st.DrawFn, name: str) -> list[dict[str, Any]]:
    """The objects of a cluster; labels and addresses have its name."""
    found: list[dict[str, Any]] = []
    for phase in ("mutating", "validating"):
        for config in ("x", "y"):
            made = draw(st.lists(hooks(f"{name}/{phase}"), max_size=2))
            if made:
                found.append(configuration(name, phase, *made, name=config))
    for resource in RESOURCES:
        kind = draw(st.sampled_from(["nothing", "definition", "binding"]))
        if kind == "definition":
            versions = draw(st.sampled_from([("v1",), ("v1", "v2"), ("v2", "v1")]))
            found.append(definition(name, resource, *versions, kind=resource.partition(".")[0].title().rstrip("s")))
        elif kind == "binding":
            owner = draw(st.sampled_from((*CLUSTERS, "")))
            found.append(binding(name, owner, resource, name=f"to-{resource}", export="e"))
    if draw(st.booleans()):
        found.append(export(name, *RESOURCES, name="e"))
    if draw(st.booleans()):
        found.append(namespace(name, of=name))
    return found


worlds = st.fixed_dictionaries({name: clusters(name) for name in CLUSTERS})


@st.composite
def reviews(draw: st.DrawFn) -> dict[str, Any]:
    document = widget(size=draw(st.integers(0, 3)))
    if draw(st.booleans()):
        document["metadata"]["labels"] = {"of": draw(st.sampled_from(CLUSTERS))}
    if draw(st.booleans()):
        document["kind"] = "Gadget"
    operation = draw(st.sampled_from(["CREATE", "UPDATE"]))
    old = copy.deepcopy(document) if operation == "UPDATE" else None
    subresource = draw(st.sampled_from(["", "", "status"]))
    return review(document, old=old, operation=operation, subResource=subresource)


class RecordedCall(NamedTuple):
    """One call of a webhook: its owner, endpoint and object."""

    owner: str
    uid: str
    url: str
    kind: str
    resource: str
    seen_as: str
    """The cluster in the annotation of the object."""


class World:
    """A dispatcher whose webhooks allow everything. Calls are recorded instead of sent."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.calls: list[RecordedCall] = []
        dependencies = Dependencies(
            call_webhook=self._ask, convert=ObjectConverter(store, HookClient(allow_private=True))
        )
        self.dispatcher = Dispatcher(store, Configurations(store), dependencies)

    async def _ask(
        self, relevant: RelevantWebhook, attributes: Attributes, *, kind: GroupVersionKind, seconds: float
    ) -> WebhookResponse:
        assert seconds > 0
        hook = relevant.webhook
        told = {document["metadata"]["annotations"]["kcp.io/cluster"] for document in objects(attributes)}
        (seen_as,) = told
        url = hook.endpoint.url if hook.endpoint else ""
        resource = "/".join(relevant.invocation.resource)
        self.calls.append(
            RecordedCall(hook.cluster, hook.uid, url, f"{kind.api_version} {kind.kind}", resource, seen_as)
        )
        return WebhookResponse(allowed=True)

    async def dispatch(self, made: dict[str, Any], *, cluster: str, phase: Phase) -> DispatchResult:
        deadline = Deadline(time.monotonic() + NET)
        return await run_work(
            self.dispatcher.dispatch(request_of(made), cluster=cluster, phase=phase, deadline=deadline)
        )


def objects(attributes: Attributes) -> list[Any]:
    return [one for one in (attributes.object, attributes.old_object) if one is not None]


def world_of(documents: dict[str, list[dict[str, Any]]], *names: str) -> World:
    """Return a world of the named clusters only."""
    return World(store_of(*(document for name in dict.fromkeys(names) for document in documents.get(name, ()))))


KIND = GroupVersionKind("example.org", "v1", "Widget")


def resource(version: Any = "v1", plural: Any = "widgets", group: Any = "example.org") -> Any:
    return GroupVersionResource(group, version, plural)


rule_attributes = st.builds(
    RuleAttributes,
    st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"]),
    st.builds(
        resource,
        st.sampled_from(["v1", "v2"]),
        st.sampled_from(["widgets", "gadgets"]),
        st.sampled_from(["example.org", "apps"]),
    )
    | st.just(resource(plural="namespaces", group="")),
    st.sampled_from(["", "status", "scale"]),
    st.booleans(),
)


equivalents = st.lists(
    st.builds(Equivalent, st.builds(resource, st.sampled_from(["v1", "v2", "v3"])), st.none() | st.just(KIND)),
    max_size=3,
).map(tuple)
