"""Finds the webhooks of a logical cluster and a phase whose rules match a request.

The webhooks of a configuration are compiled again when it changes.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.engines.dispatch.match.equivalent_resources import (
    Equivalent,
    EquivalentIndex,
    WebhookInvocation,
    find_invocation,
)
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import (
    PHASES,
    Phase,
    Webhook,
    compile_webhooks,
    set_defaults,
)
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import ABSENT, JSONObject, count_values
from fleethook.model.rule_matching import EVERY, RuleAttributes
from fleethook.work.threads_and_gc import Work, Worker

MAX_WEBHOOKS: Final = 1_000
"""Webhooks of a logical cluster in one phase."""
MAX_NAMES: Final = 10_000
"""Names in the rules of these webhooks. A request is compared with them on the event loop in about 4 ms, and `explain`
takes 30 ms."""


def explain_excess(webhooks: Sequence[Webhook]) -> str:
    """Return why the webhooks of a logical cluster in a phase are too many, ``""`` if they are not."""
    limit = f"and fleethook compares requests with at most {MAX_WEBHOOKS} webhooks and {MAX_NAMES} names in their rules"
    if len(webhooks) > MAX_WEBHOOKS:
        return f"there are {len(webhooks)}, {limit}: remove some"
    if sum(webhook.weight for webhook in webhooks) > MAX_NAMES:
        return f"their rules have too many names, {limit}: use wildcards"
    return ""


class RelevantWebhook(NamedTuple):
    """A webhook whose rules match a request."""

    webhook: Webhook
    invocation: WebhookInvocation


_NONE: Final = frozenset[int]()


class _State(NamedTuple):
    """The webhooks of all configurations at one time."""

    webhooks: tuple[Webhook, ...]
    problem: str
    groups: Mapping[str, set[int]]
    """The positions of the webhooks that have a rule with an API group or ``*``; none if there is a problem."""
    resources: Mapping[str, set[int]]
    """The same for resources, without their subresources."""


class WebhookIndex:
    """Webhooks in an apiserver's order: by configuration name, then as declared."""

    def __init__(self, webhooks: Iterable[Webhook] = ()) -> None:
        """Hold webhooks; those of one configuration must be adjacent."""
        self._by_configuration: Final[dict[str, tuple[Webhook, ...]]] = {}
        self._built: _State | None = None
        for name, group in groupby(webhooks, key=lambda webhook: webhook.configuration):
            self.replace(name, tuple(group))

    def replace(self, configuration: str, webhooks: tuple[Webhook, ...]) -> None:
        """Replace the webhooks of a configuration."""
        self._built = None
        self._by_configuration.pop(configuration, None)
        if webhooks:
            self._by_configuration[configuration] = webhooks

    def __bool__(self) -> bool:
        """Return whether there are any webhooks."""
        return bool(self._by_configuration)

    @property
    def problem(self) -> str:
        """Why these webhooks are too many to be compared with a request, ``""`` if they are not."""
        return self._state.problem

    @property
    def webhooks(self) -> tuple[Webhook, ...]:
        """All webhooks, with their positions in their configurations."""
        return self._state.webhooks

    @property
    def _state(self) -> _State:
        """The present state: 1,000 webhooks take a millisecond after a change."""
        if self._built is None:
            webhooks = tuple(webhook for _, each in sorted(self._by_configuration.items()) for webhook in each)
            groups, resources = dict[str, set[int]](), dict[str, set[int]]()
            problem = explain_excess(webhooks)
            for position, webhook in enumerate(() if problem else webhooks):
                for rule in webhook.rules:
                    for group in rule.groups:
                        groups.setdefault(group, set()).add(position)
                    for resource, _ in rule.resources:
                        resources.setdefault(resource, set()).add(position)
            self._built = _State(webhooks, problem, groups, resources)
        return self._built

    def find_relevant(
        self, attributes: RuleAttributes, kind: GroupVersionKind, equivalents: tuple[Equivalent, ...]
    ) -> tuple[RelevantWebhook, ...]:
        """Return the webhooks whose rules match a request, in order."""
        webhooks, _, groups, resources = self._state
        named = {(one.group, one.resource) for one in (attributes.resource, *(each.resource for each in equivalents))}
        candidates = {
            position
            for group, resource in named
            for position in groups.get(group, _NONE) | groups.get(EVERY, _NONE)
            if position in resources.get(resource, _NONE) or position in resources.get(EVERY, _NONE)
        }
        known = EquivalentIndex(equivalents)
        return tuple(
            RelevantWebhook(webhooks[position]._replace(position=position), invocation)
            for position in sorted(candidates)
            if (invocation := find_invocation(webhooks[position], attributes, kind, known)) is not None
        )


# Values of changed configurations that are compiled on the event loop, in 3 ms. A typical webhook has 40 values.
_SMALL: Final = 1_000


class _ClusterWebhooks:
    """The compiled webhooks of a logical cluster and a phase."""

    def __init__(self, documents: dict[str, JSONObject | None]) -> None:
        self.webhooks: Final = WebhookIndex()
        # The configurations to compile, by name; None for a deleted one.
        self.changed: dict[str, JSONObject | None] = documents
        self.lock: Final = asyncio.Lock()


class Configurations:
    """Holds the compiled webhooks of a store's configurations, by cluster and phase."""

    def __init__(self, store: Store) -> None:
        """Subscribe to a store."""
        self._store: Final = store
        self._webhooks: Final[dict[tuple[str, Phase], _ClusterWebhooks]] = {}
        store.subscribe(self._record_change)

    def _record_change(self, key: ObjectKey, _before: Stored | None, after: JSONObject | None) -> None:
        for phase, group_kind in PHASES.items():
            if key.group_kind == group_kind and (known := self._webhooks.get((key.cluster, phase))) is not None:
                known.changed[key.name] = after

    def find(self, cluster: str, phase: Phase, *, worker: Worker) -> Work[WebhookIndex]:
        """Return the webhooks of a logical cluster; large changes are compiled in a thread.

        The result includes every change that the store had at the time of the call. Without a large change, this waits
        for nothing.
        """
        known = self._find_webhooks(cluster, phase)
        if known is None:
            return WebhookIndex()
        if sum(count_values(one, limit=_SMALL) for one in known.changed.values()) > _SMALL:
            yield self._compile_in_thread(known, cluster, phase, worker)
        elif known.changed:
            self._install(known, dict(known.changed), compile_configurations(known.changed, phase, cluster))
        if not known.webhooks and not known.changed:
            self._webhooks.pop((cluster, phase), None)
        return known.webhooks

    async def _compile_in_thread(self, known: _ClusterWebhooks, cluster: str, phase: Phase, worker: Worker) -> None:
        async with known.lock:
            taken = dict(known.changed)
            self._install(known, taken, await worker.run(cluster, compile_configurations, taken, phase, cluster))

    def _find_webhooks(self, cluster: str, phase: Phase) -> _ClusterWebhooks | None:
        known = self._webhooks.get((cluster, phase))
        if known is None:
            documents = {one["metadata"]["name"]: one for one in self._store.each(cluster, PHASES[phase])}
            if not documents:
                # Clusters without configurations are not stored: a caller can name any number of clusters.
                return None
            known = self._webhooks[cluster, phase] = _ClusterWebhooks(dict(documents))
        return known

    def _install(
        self,
        known: _ClusterWebhooks,
        taken: Mapping[str, JSONObject | None],
        compiled: Mapping[str, tuple[Webhook, ...]],
    ) -> None:
        """Take over compiled configurations, except those that have changed again."""
        for name, webhooks in compiled.items():
            if known.changed.get(name, ABSENT) is taken[name]:
                del known.changed[name]
                known.webhooks.replace(name, webhooks)


def compile_configurations(
    documents: Mapping[str, JSONObject | None], phase: Phase, cluster: str
) -> dict[str, tuple[Webhook, ...]]:
    """Return the compiled webhooks of configurations by name, none for a deleted configuration."""
    return {
        name: () if one is None else tuple(compile_webhooks(phase, cluster, set_defaults(one)))
        for name, one in documents.items()
    }
