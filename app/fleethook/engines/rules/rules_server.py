"""The admission rules of a running server: routes, reload of their files, checks."""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from prometheus_client.registry import Collector

from fleethook.admission.decorators_and_files import load_rules
from fleethook.admission.rule_in_tests import Rule
from fleethook.admission.rule_scope_and_options import RuleError
from fleethook.cluster.followed_objects import Followed
from fleethook.cluster.kubernetes.watched_resources import WatchedResource, decode_object
from fleethook.cluster.leader_election import find_namespace
from fleethook.cluster.registration.consumer_bindings_and_webhooks import name_configuration
from fleethook.cluster.registration.paths import build_rule_path
from fleethook.cluster.registration.rule_webhooks_and_outage import build_rule_configurations
from fleethook.cluster.registration.webhook_configurations import (
    URLReference,
    find_exempt_namespaces,
    find_reference,
    service_of,
)
from fleethook.engine import EngineStartError
from fleethook.engines.rules.consumer_workspaces import Consumers, make_gauge
from fleethook.engines.rules.consumer_workspaces import list_resources as list_consumed
from fleethook.engines.rules.rule_threads_and_route import RuleRunner, make_rule_route, make_unknown_route
from fleethook.engines.rules.rules_settings import RulesSettings
from fleethook.model.gvk import GroupKind, parse_api_version
from fleethook.model.json import JSONObject
from fleethook.python_files import find_modules
from fleethook.server.engine_server import BackgroundTask, EngineServer, Leadership, ServerContext
from fleethook.server.health import Check
from fleethook.server.reviews.admission_endpoint import ReviewRoute
from fleethook.settings import Settings

_log = logging.getLogger("fleethook.rules")

_POLL_SECONDS: Final = 1.0
"""Until files are compared again. Some file systems notify of no change, and editors and the kubelet replace files."""


def list_resources(settings: Settings) -> Followed:
    """Return the resources that rules follow; raises EngineStartError."""
    try:
        rules = load_rules(settings.section(RulesSettings).rules)
    except RuleError as error:
        raise EngineStartError(str(error)) from error
    named = sorted({follow for rule in rules for follow in rule.declaration.follows})
    followed = [WatchedResource(*parse_api_version(one), plural, kind, decode_object) for one, kind, plural in named]
    consumed = list_consumed(settings.kcp_export) if settings.kcp_export else ()
    return Followed([*consumed, *{one.group_kind: one for one in followed}.values()])


def check_followed(rules: Iterable[Rule], followed: Mapping[GroupKind, WatchedResource]) -> None:
    """Raise RuleError for a rule that follows a kind which the server does not follow completely."""
    for rule in rules:
        for kind in rule.followed:
            present = followed.get(kind)
            if present is None:
                raise RuleError(
                    f"{rule.place}: the rule {rule.name} follows {kind.kind}, and no rule did so when the server "
                    "started: restart the server"
                )
            if not present.is_complete:
                raise RuleError(
                    f"{rule.place}: the rule {rule.name} follows {kind.kind}, of which other engines of this server "
                    "read only a part: serve the rules by a server of their own"
                )


class RulesServer(EngineServer):
    """Answers reviews by rules in Python.

    Attributes:
        rules: The rules by the path of their route.
        problem: Why the newest files are not served; ``""`` if they are.
    """

    def __init__(self, context: ServerContext) -> None:
        """Load the rules; raises EngineStartError."""
        super().__init__(context)
        settings = self._settings = context.settings.section(RulesSettings)
        self.registers = settings.registers_rules and context.settings.kcp_export is None
        # The chart gives this name to the Service and to the ClusterRole of its server.
        self._name: Final = "fleethook" if settings.service is None else service_of(settings.service).name
        self.registration_owner = self._name if settings.in_cluster else ""
        self._paths: Final = settings.rules
        self._versions = _read_versions(self._paths)
        try:
            self.rules = self._load()
        except RuleError as error:
            raise EngineStartError(str(error)) from error
        self._runners: Final = {path: RuleRunner(rule, settings.rule_settings) for path, rule in self.rules.items()}
        self._consumers: Consumers | None = None
        if (export := context.settings.kcp_export) is not None and context.cluster is not None:
            namespace = find_namespace(context.settings)
            self._consumers = Consumers(context.cluster, context.store, export=export, namespace=namespace)
        self.leads = settings.registers_rules and self._consumers is not None
        self.problem = ""
        self._reloading: Final = asyncio.Lock()

    def _load(self) -> Mapping[str, Rule]:
        """Return the rules of the files by path; raises RuleError."""
        rules = load_rules(self._paths)
        if self.context.cluster is not None:
            check_followed(rules, self.context.cluster.resources)
        return {build_rule_path(rule.name, mutates=rule.declaration.mutates): rule for rule in rules}

    def _build_for_consumer(self, suffix: str) -> list[JSONObject]:
        """Return the configurations of a consumer, whose URLs end with ``suffix``."""
        settings = self.context.settings
        assert settings.webhook_url is not None
        assert settings.kcp_export is not None
        return build_rule_configurations(
            self.rules.values(),
            URLReference(settings.webhook_url, suffix),
            name=name_configuration(settings.kcp_export),
            server=find_namespace(settings),
            exempt=(),
        )

    async def lead(self, leadership: Leadership) -> None:
        """Maintain the configurations of consumers."""
        if self._consumers is not None and self.leads:
            changed = self.context.registration_changed
            await self._consumers.maintain(self._build_for_consumer, changed=changed, bundle=leadership.bundle)

    def collectors(self) -> Iterable[Collector]:
        """Return the gauge of consumers."""
        return [make_gauge(self._consumers)]

    def configurations(self) -> list[JSONObject]:
        """Return the webhook configurations of the rules."""
        settings = self.context.settings
        namespace = find_namespace(settings)
        return build_rule_configurations(
            self.rules.values(),
            find_reference(settings),
            name=f"{self._name}-rules",
            server=namespace,
            # A server outside of the cluster has its Lease in this namespace.
            exempt=[*find_exempt_namespaces(settings, namespace), namespace],
        )

    def routes(self) -> list[ReviewRoute]:
        """Return a route for each rule, and one for the reviews of all others."""
        if not self._paths:
            return []
        known = (make_rule_route(path, self._runners, self.context, self._consumers) for path in self.rules)
        return [*known, make_unknown_route()]

    def checks(self) -> Iterable[Check]:
        """Return the check of the files. A broken file leaves the server ready: it answers by the former rules."""
        if self._paths:
            yield Check("rules", ok=True, detail=self.problem, degraded=bool(self.problem))
        if self._consumers is not None:
            yield self._consumers.check()

    def tasks(self) -> Iterator[BackgroundTask]:
        """Return the task that reloads changed files."""
        if self._paths:
            yield "rules", self._follow()
        if self._consumers is not None:
            yield "key of consumers", self._consumers.read_key()

    async def close(self) -> None:
        """End the threads of rules."""
        for runner in self._runners.values():
            runner.close()

    async def _follow(self) -> None:
        while True:
            await self.reload()
            await asyncio.sleep(_POLL_SECONDS)

    async def reload(self) -> None:
        """Load the files if they have changed. With an error, the former rules stay."""
        async with self._reloading:
            versions = await asyncio.to_thread(_read_versions, self._paths)
            if versions == self._versions:
                return
            self._versions = versions
            try:
                self.rules = await asyncio.to_thread(self._load)
            except RuleError as error:
                self.problem = f"{error}; the former rules stay"
                _log.error("admission rules not reloaded: %s", self.problem)
                for runner in self._runners.values():
                    runner.problem = self.problem
                return
            self.problem = ""
            for path, rule in self.rules.items():
                former = self._runners.get(path)
                self._runners[path] = RuleRunner(rule, self._settings.rule_settings)
                if former is None:
                    self.context.add_route(make_rule_route(path, self._runners, self.context, self._consumers))
                else:
                    former.close(after=former.rule.declaration.timeout)
            self.context.registration_changed.set()
            _log.info("admission rules reloaded: %s", ", ".join(one.name for one in self.rules.values()))


def _read_versions(paths: Sequence[Path]) -> Mapping[Path, tuple[int, ...]]:
    """Return the identity, the time and the size of each file that exists, and of the modules beside them."""
    found = {}
    for file in {*paths, *(beside for path in paths for beside in find_modules(path))}:
        with contextlib.suppress(OSError):
            status = file.stat()
            # The time of the last change of contents or rights.
            found[file] = (status.st_ino, status.st_ctime_ns, status.st_size)
    return found
