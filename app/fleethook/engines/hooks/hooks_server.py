"""The admission rules of a running server: routes, reload of their files, checks."""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from watchfiles import awatch

from fleethook.admission.declaration import RuleError, find_wrong_kind
from fleethook.admission.objects import Lookup
from fleethook.admission.rule import Hook
from fleethook.admission.rules_file import load_rules
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.leader_election import find_namespace
from fleethook.cluster.registration.paths import UNKNOWN_RULE, build_rule_path
from fleethook.cluster.registration.rule_webhooks import build_rule_configurations
from fleethook.cluster.registration.webhooks import find_exempt_namespaces, find_reference
from fleethook.cluster.store import StoreView
from fleethook.engine import EngineStartError
from fleethook.engines.hooks.hooks_settings import HooksSettings
from fleethook.engines.hooks.rule_runner import RuleRunner
from fleethook.engines.hooks.served_kinds import check_followed, check_served
from fleethook.model.admission import AdmissionRequest, Response, allowed, errored
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.server.engine_server import BackgroundTask, EngineServer, ServerContext
from fleethook.server.health import Check
from fleethook.server.reviews.admission_endpoint import ReviewRoute, make_admission_route

_log = logging.getLogger("fleethook.hooks")

_RESCAN_MS: Final = 5_000
"""Milliseconds until files are compared without an event: some network file systems send none."""


class HooksServer(EngineServer):
    """Answers reviews by rules in Python.

    Attributes:
        rules: The rules by the path of their route.
        problem: Why the newest files are not served; ``""`` if they are.
    """

    def __init__(self, context: ServerContext) -> None:
        """Load the rules; raises EngineStartError."""
        super().__init__(context)
        settings = self._settings = context.settings.section(HooksSettings)
        self.registers = settings.registers_hooks
        self.registration_owner = settings.hook_owner or ""
        self._paths: Final = settings.hooks
        self._runner: Final = RuleRunner(settings)
        self._followed: Final = {} if context.cluster is None else context.cluster.resources
        self._texts = _read_texts(self._paths)
        try:
            self.rules = self._load()
        except RuleError as error:
            raise EngineStartError(str(error)) from error
        self._served: Final = set(self.rules)
        self.problem = ""
        self._reloading: Final = asyncio.Lock()

    def _load(self) -> Mapping[str, Hook]:
        """Return the rules of the files by path; raises RuleError."""
        rules = load_rules(self._paths)
        if self.context.cluster is not None:
            check_followed(rules, self._followed)
        return {find_path(rule): rule for rule in rules}

    async def verify(self) -> None:
        """Compare the rules with the kinds that the cluster serves; raises EngineStartError."""
        try:
            await self._check_served(self.rules.values())
        except RuleError as error:
            raise EngineStartError(str(error)) from error

    async def _check_served(self, rules: Iterable[Hook]) -> None:
        """Raise RuleError for a kind that the cluster does not serve. Without an answer, it checks nothing."""
        if not self._settings.follows_cluster:
            return
        from fleethook.cluster.connection import Connection  # noqa: PLC0415 - see fleethook.cluster

        try:
            async with Connection(self._settings.kubeconfig, context=self._settings.context) as connection:
                await check_served(rules, connection)
        except (APIError, UnreachableError) as error:
            _log.warning("cannot compare the kinds of rules with those of the cluster: %s", error)

    def configurations(self) -> list[JSONObject]:
        """Return the webhook configurations of the rules."""
        return build_rule_configurations(
            self.rules.values(),
            find_reference(self.context.settings),
            name=self._settings.hook_configuration,
            server=find_namespace(self.context.settings),
            exempt=find_exempt_namespaces(self.context.settings.service),
        )

    def routes(self) -> list[ReviewRoute]:
        """Return a route for each rule, and one for the reviews of all others.

        While replicas start or reload their files, kube-apiserver may send reviews for rules of another replica.
        """
        if not self._paths:
            return []
        summary = "Admit objects for which this replica has no rule"
        unknown = make_admission_route(UNKNOWN_RULE, summary, lambda _: _admit("such rule, yet or any more"))
        return [*(self._make_route(path) for path in self.rules), unknown]

    def _make_route(self, path: str) -> ReviewRoute:
        rule = self.rules[path]
        summary = f"{'Change' if rule.declaration.mutates else 'Validate'} objects by the rule {rule.name}"
        return make_admission_route(path, summary, partial(self._answer, path))

    def _answer(self, path: str, request: AdmissionRequest) -> Response | Any:
        rule = self.rules.get(path)
        if rule is None:
            return _admit(f"rule {path.rpartition('/')[2]} any more")
        if reason := find_wrong_kind(rule.declaration, request):
            return errored(f"the rule {rule.name} does not decide about this request: {reason}")
        if self.context.cluster is not None and (
            missing := self.context.cluster.source.missing(rule.declaration.followed)
        ):
            # A rule that sees no objects could decide wrongly.
            return rule.fail(f"{rule.place}: {missing}")
        return self._runner.answer(rule, request, _find_in(self.context.store))

    def checks(self) -> Iterable[Check]:
        """Return the check of the files. A broken file leaves the server ready: it answers by the former rules."""
        if self._paths:
            yield Check("hooks", ok=True, detail=self.problem, degraded=bool(self.problem))

    def tasks(self) -> Iterator[BackgroundTask]:
        """Return the task that reloads changed files."""
        if self._paths:
            yield "hooks", self._follow()

    async def close(self) -> None:
        """End the threads of rules."""
        self._runner.close()

    async def _follow(self) -> None:
        while True:
            await self.reload()
            watch = awatch(
                *_list_directories(self._paths), recursive=False, rust_timeout=_RESCAN_MS, yield_on_timeout=True
            )
            with contextlib.suppress(OSError):  # A directory may be missing for a moment.
                async with contextlib.aclosing(watch):
                    async for _ in watch:
                        if await self.reload():
                            break  # The files may be links to another directory now.
            await asyncio.sleep(0 if self._exist() else 1)

    def _exist(self) -> bool:
        return all(path.exists() for path in self._paths)

    async def reload(self) -> bool:
        """Load the files if they have changed, and return whether they have. With an error, the former rules stay."""
        async with self._reloading:
            return await self._reload()

    async def _reload(self) -> bool:
        texts = await asyncio.to_thread(_read_texts, self._paths)
        if texts == self._texts:
            return False
        self._texts = texts
        try:
            rules = await asyncio.to_thread(self._load)
            await self._check_served(rules.values())
        except RuleError as error:
            self.problem = f"{error}; the former rules stay"
            _log.error("admission rules not reloaded: %s", self.problem)
            return True
        self.rules = rules
        self.problem = ""
        for path in self.rules:
            if path not in self._served:
                self._served.add(path)
                self.context.add_route(self._make_route(path))
        self.context.registration_changed.set()
        _log.info("admission rules reloaded: %s", ", ".join(one.name for one in self.rules.values()))
        return True


def _admit(lack: str) -> Response:
    return allowed(warnings=(f"fleethook has no {lack}; it admits the object",))


def find_path(rule: Hook) -> str:
    """Return the path of the route of a rule."""
    return build_rule_path(rule.name, mutates=rule.declaration.mutates)


def _list_directories(paths: Iterable[Path]) -> set[Path]:
    """Return the directories to watch: editors replace files, and the kubelet replaces links beside them."""
    return {one for path in paths for one in (path.absolute().parent, path.resolve().parent) if one.is_dir()}


def _read_texts(paths: Sequence[Path]) -> Mapping[Path, bytes]:
    """Return the texts of the files that can be read."""
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):
            found[path] = path.read_bytes()
    return found


def _find_in(store: StoreView) -> Lookup:
    """Return the lookup of a store that may change while a thread reads it."""

    def list_objects(kind: GroupKind) -> list[Any]:
        while True:
            try:
                return list(store.each("", kind))
            except RuntimeError:  # The event loop has added or removed an object meanwhile.
                continue

    return list_objects
