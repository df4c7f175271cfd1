"""Objects for dispatch: an export of Widgets with its hooks in one workspace, its binding in another, and other hooks."""

import functools
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fleethook.cluster.store import Store
from fleethook.engines.dispatch.dispatcher import Dependencies, Dispatcher
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import INDEXES
from fleethook.engines.dispatch.version_conversion import ObjectConverter
from fleethook.engines.dispatch.webhooks.cluster_webhooks import Configurations
from fleethook.model.rule_matching import EVERY
from fleethook.outbound.calls_and_retries import HookClient
from tests.engines.dispatch.builders import (
    binding,
    configuration,
    export,
    in_cluster,
    namespace,
    review,
    webhook,
    widget,
)

OWNER, CONSUMER, QUIET = "ws1", "ws3", "ws9"
SIZES = (10, 100, 1_000)
HOOKS = 3
# Fewer resources than the cache of definitions holds.
RESOURCES = 900
SAME, VARIED = "the same again", "never the same twice"


def build_widget(**spec: Any) -> dict[str, Any]:
    """Return a Widget that all three hooks match."""
    made = widget(**spec)
    made["metadata"]["labels"] = {"app": "shop"}
    return made


def build_hooks(resources: Sequence[str], urls: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Return three hooks.

    By an exact rule; by another version and the namespace's labels; by the object's labels and a condition.
    """
    rules = [
        [{"apiGroups": ["example.org"], "apiVersions": [its_version], "resources": resources, "operations": ["*"]}]
        for its_version in ("v1", "v2", EVERY)
    ]
    condition = "!('system:nodes' in request.userInfo.groups) && object.spec.replicas < 100"
    exact, equivalent, selected = urls
    return [
        webhook("exact.example.org", rules=rules[0], matchPolicy="Exact", clientConfig=exact),
        webhook(
            "equivalent.example.org", rules=rules[1], namespaceSelector={"matchLabels": {"team": "shop"}},
            clientConfig=equivalent,
        ),
        webhook(
            "selected.example.org", rules=rules[2], objectSelector={"matchLabels": {"app": "shop"}},
            matchConditions=[{"name": "few", "expression": condition}], clientConfig=selected,
        ),
    ]  # fmt: skip


def build_other_hook(number: int, pick: random.Random, *, broad: bool = False) -> dict[str, Any]:
    """Return a hook about something else; a broad one is about every resource, but in another operation."""
    rule = {
        "apiGroups": [f"group-{number % 397}.example.com"],
        "apiVersions": pick.choice([["v1"], ["v1beta1", "v1"], [EVERY]]),
        "resources": pick.choice([[f"things{number % 31}"], [f"things{number % 31}", "others/status"], [EVERY]]),
        "operations": pick.choice([["CREATE", "UPDATE"], [EVERY], ["DELETE"]]),
    }
    if broad:
        rule = {"apiGroups": [EVERY], "apiVersions": [EVERY], "resources": ["*/*"], "operations": ["CONNECT"]}
    selector = {"matchExpressions": [{"key": "team", "operator": "In", "values": [f"team-{number % 7}", "shop"]}]}
    members = pick.choice([{}, {"namespaceSelector": selector}, {"objectSelector": selector}])
    return webhook(f"hook-{number}.example.com", "https://hooks.example.com/", rules=[rule], **members)


def build_configurations(hooks: Sequence[dict[str, Any]], phase: str) -> list[dict[str, Any]]:
    """Return the hooks in configurations of ten."""
    return [
        configuration(OWNER, phase, *hooks[first : first + 10], name=f"config-{first:06}")
        for first in range(0, len(hooks), 10)
    ]


@functools.cache
def build_exports(count: int) -> list[dict[str, Any]]:
    """Return a schema, a binding and a plural for each of some resources, the first of which are the Widgets.

    All worlds share the schemas, because their compiled form is cached by identity, for 1,024 schemas at most.
    """
    plurals = ["widgets", *(f"widgets{number}" for number in range(1, count))]
    versions = [{"name": name, "served": True, "subresources": {"status": {}}} for name in ("v1", "v2")]
    made = [
        export(OWNER, *(f"{plural}.example.org" for plural in plurals)),
        namespace(CONSUMER, "default", team="shop"),
    ]
    for plural in plurals:
        resource = f"{plural}.example.org"
        names = {"plural": plural, "kind": plural.title()}
        spec = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": versions}
        made.append(in_cluster(OWNER, "apis.kcp.io/v1alpha1", "APIResourceSchema", f"v1.{resource}", spec=spec))
        made.append(binding(CONSUMER, OWNER, resource, name=plural))
    return made


def build_review(
    plural: str = "widgets",
    operation: str = "CREATE",
    subresource: str = "",
    name: str = "b",
    *,
    namespaced: bool = True,
    **spec: Any,
) -> dict[str, Any]:
    """Return a review of an object of that plural."""
    document = {**build_widget(replicas=3, **spec), "kind": plural.title()}
    document["metadata"]["name"] = name
    if not namespaced:
        del document["metadata"]["namespace"]
    old = document if operation == "UPDATE" else None
    resource = {"group": "example.org", "version": "v1", "resource": plural}
    return review(document, old=old, operation=operation, subResource=subresource, resource=resource)


class World:
    """A number of hooks, three of which match the requests."""

    def __init__(
        self, count: int, *, resources: Sequence[str] = ("widgets", "widgets/status"), kinds: int = 1, broad: int = 0
    ) -> None:
        pick = random.Random(count)
        others = [build_other_hook(number, pick, broad=number < broad) for number in range(count - HOOKS)]
        three = build_hooks(list(resources), [{"url": "https://hooks.example.com/"}] * HOOKS)
        middle = len(others) // 2
        self.count = count
        self.configurations = build_configurations(
            [three[0], *others[:middle], three[1], *others[middle:], three[2]], phase="mutating"
        )
        self.store = Store(INDEXES)
        for document in (*build_exports(kinds), *self.configurations):
            self.store.put(document)
        dependencies = Dependencies(
            call_webhook=None, convert=ObjectConverter(self.store, HookClient(allow_private=True))
        )
        self.dispatcher = Dispatcher(self.store, Configurations(self.store), dependencies)
        self._changes = 0

    def change(self) -> None:
        """Update one configuration without changing a hook."""
        self._changes += 1
        first = self.configurations[0]
        metadata = {**first["metadata"], "labels": {"changed": str(self._changes)}}
        self.store.put({**first, "metadata": metadata})


class Case(NamedTuple):
    """Worlds of several sizes, with the requests for each."""

    title: str
    worlds: list[World]
    reviews: list[Any]


def cases() -> list[Case]:
    """Return the cases that are measured both in Python and in Go."""
    varied = [
        build_review(f"widgets{number or ''}", operation, subresource, f"w-{number}", namespaced=namespaced)
        for namespaced in (True, False)
        for operation, subresource in (("CREATE", ""), ("UPDATE", ""), ("UPDATE", "status"))
        for number in range(RESOURCES)
    ]
    every: dict[str, Any] = {"resources": (EVERY, "*/status"), "kinds": RESOURCES}
    return [
        Case(SAME, [World(count) for count in SIZES], [build_review()]),
        Case(VARIED, [World(count, **every) for count in SIZES], varied),
        Case(
            f"{VARIED}, 1 % of the hooks about every resource",
            [World(count, **every, broad=count // 100) for count in SIZES],
            varied,
        ),
    ]
