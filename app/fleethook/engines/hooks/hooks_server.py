"""The admission rules of a running server: routes, reload of their files, checks."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from watchfiles import awatch

from fleethook.admission.declaration import RuleError
from fleethook.admission.invocation import Lookup
from fleethook.admission.rule import Hook
from fleethook.admission.rules_file import find_modules, load_rules
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.leader_election import find_namespace
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.registration.configuration_objects import find_exempt_namespaces, find_reference
from fleethook.cluster.registration.paths import UNKNOWN_RULE, build_rule_path
from fleethook.cluster.registration.rule_webhooks import build_rule_configurations
from fleethook.cluster.store import StaleError, StoreView, key_of
from fleethook.engine import EngineStartError
from fleethook.engines.hooks.hooks_settings import HooksSettings
from fleethook.engines.hooks.result_check import Schema, find_custom_faults, read_schemas
from fleethook.engines.hooks.rule_runner import RuleRunner, report_faults
from fleethook.engines.hooks.served_kinds import (
    check_defined,
    check_followed,
    check_served,
    find_definition_name,
    read_definition,
)
from fleethook.model.admission import AdmissionRequest, Response, errored
from fleethook.model.gvk import DEFINITION, GroupKind
from fleethook.model.json import JSONObject
from fleethook.server.engine_server import BackgroundTask, EngineServer, ServerContext
from fleethook.server.health import Check
from fleethook.server.reviews.admission_endpoint import ReviewRoute, make_admission_route
from fleethook.server.reviews.codec import Decoded, decode_review
from fleethook.work.pausing import Work

if TYPE_CHECKING:
    from fleethook.cluster.connection import Connection

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
        self._removed: Final[dict[str, Hook]] = {}
        self._served: Final = set(self.rules)
        self._has_refused = False  # Logged once for each version of the files.
        self.problem = ""
        self._schemas: Final[dict[str, tuple[Schema, ...]]] = {}
        self._definitions: Mapping[str, JSONObject] = {}
        self._reloading: Final = asyncio.Lock()

    def _load(self) -> Mapping[str, Hook]:
        """Return the rules of the files by path; raises RuleError."""
        rules = load_rules(self._paths)
        if self.context.cluster is not None:
            check_followed(rules, self._followed)
        return {find_path(rule): rule for rule in rules}

    async def verify(self) -> None:
        """Compare the rules with the kinds that the cluster serves, or the manifests; raises EngineStartError."""
        if isinstance(self.context.source, ManifestSource):
            self.context.source.load()  # Later loads read only changed files.
            await self.check_manifests(self.context.source.documents())
        try:
            await self._check_served(self.rules.values())
        except RuleError as error:
            raise EngineStartError(str(error)) from error

    async def _check_served(self, rules: Iterable[Hook]) -> None:
        """Raise RuleError for a kind that the cluster does not serve. Without an answer, it checks nothing."""
        if not self._settings.follows_cluster:
            check_defined(rules, self._definitions.values())
            self._read_defined(rules)
            return
        try:
            async with self._connect() as connection:
                await check_served(rules, connection)
                for rule in rules:
                    await self._read_schemas(rule, connection)
        except (APIError, UnreachableError) as error:
            _log.warning("cannot compare the kinds of rules with those of the cluster: %s", error)

    async def check_manifests(self, documents: Sequence[Document]) -> None:
        """Take the CustomResourceDefinitions of the manifests, whose schemas check the results of rules."""
        found = (one.object for one in documents if key_of(one.object).group_kind == DEFINITION)
        self._definitions = {one["metadata"]["name"]: one for one in found}
        self._read_defined(self.rules.values())

    def _read_defined(self, rules: Iterable[Hook]) -> None:
        for rule in rules:
            name = find_definition_name(rule.declaration)
            if name is not None and (name in self._definitions or name in self._schemas):
                self._schemas[name] = tuple(read_schemas(self._definitions.get(name, {})))

    def _connect(self) -> "Connection":
        from fleethook.cluster.connection import Connection  # noqa: PLC0415 - see fleethook.cluster

        return Connection(self._settings.kubeconfig, context=self._settings.context)

    async def _read_schemas(self, rule: Hook, connection: "Connection") -> None:
        """Read the schemas of the custom resources that a rule changes."""
        if (name := find_definition_name(rule.declaration)) is not None:
            self._schemas[name] = await read_definition(connection, name)

    def configurations(self) -> list[JSONObject]:
        """Return the webhook configurations of the rules."""
        settings = self.context.settings
        namespace = find_namespace(settings)
        return build_rule_configurations(
            self.rules.values(),
            find_reference(settings),
            name=self._settings.hook_configuration,
            server=namespace,
            exempt=find_exempt_namespaces(settings, namespace),
        )

    def routes(self) -> list[ReviewRoute]:
        """Return a route for each rule, and one for the reviews of all others.

        While replicas start or reload their files, kube-apiserver may send reviews for rules of another replica. This
        replica cannot decide about them, so its answer is an error, and the failure policy decides.
        """
        if not self._paths:
            return []
        summary = "Leave objects for which this replica has no rule to the failure policy"
        unknown = make_admission_route(UNKNOWN_RULE, summary, _deny_unasked, prepare=self._refuse_unknown)
        return [*(self._make_route(path) for path in self.rules), unknown]

    def _refuse_unknown(self, request: AdmissionRequest) -> Work[None] | None:
        """Raise StaleError: a response with a verdict would decide in place of the failure policy."""
        problem = (
            f"this replica has no such rule for {request.kind.kind}: its files are older or newer than those of the "
            "replica that registered the webhook"
        )
        if not self._has_refused:
            self._has_refused = True
            _log.warning("a review is left to its failure policy: %s", problem)
        raise StaleError(problem)

    def _make_route(self, path: str) -> ReviewRoute:
        rule = self.rules[path]
        summary = f"{'Change' if rule.declaration.mutates else 'Validate'} objects by the rule {rule.name}"
        return make_admission_route(path, summary, partial(self._answer, path), decode=partial(self._decode, path))

    def _decode(self, path: str, body: bytes) -> Decoded:
        """Return the review in a body, in part if its rule is short; raises BadReviewError."""
        rule = self.rules.get(path)
        found = None if rule is None else rule.decode_review(body)
        return decode_review(body) if found is None else Decoded(found[0], found[1].uid, found[1], "")

    def _answer(self, path: str, request: AdmissionRequest) -> Response | Any:
        rule = self.rules.get(path)
        if rule is None:
            return self._answer_removed(self._removed[path], request)
        return self._ask(rule, request)

    async def _answer_removed(self, rule: Hook, request: AdmissionRequest) -> Response:
        """Return the answer of a rule that the files lack: it decides until its webhook is removed.

        A renamed rule would have a gap otherwise, because the webhook of its new name is registered later.
        """
        decided = self._ask(rule, request)
        answer = decided if isinstance(decided, Response) else await decided
        warning = f"the rule {rule.name} is not in the files any more, and decides until its webhook is removed"
        return msgspec.structs.replace(answer, warnings=(*answer.warnings, warning))

    def _ask(self, rule: Hook, request: AdmissionRequest) -> Response | Any:
        if reason := rule.find_wrong_kind(request):
            return errored(f"the rule {rule.name} does not decide about this request: {reason}")
        if self.context.cluster is not None and (missing := self.context.cluster.source.missing(rule.followed)):
            # A rule that sees no objects could decide wrongly.
            return rule.fail(f"{rule.place}: {missing}")
        decided = self._runner.answer(rule, request, _find_in(self.context.store))
        if self._schemas and find_definition_name(rule.declaration) in self._schemas:
            return self._check_custom(rule, request, decided)
        return decided

    async def _check_custom(
        self, rule: Hook, request: AdmissionRequest, decided: Response | Awaitable[Response]
    ) -> Response:
        """Return the answer of a rule, or that of a failed rule if the changed custom resource is invalid."""
        answer = decided if isinstance(decided, Response) else await decided
        name = find_definition_name(rule.declaration) or ""
        if not answer.patch or request.sub_resource:
            return answer

        def check() -> Response:
            schemas = self._schemas[name]
            return report_faults(rule, request, answer, lambda one: find_custom_faults(schemas, request, one))

        checked = await asyncio.to_thread(check)
        if checked is answer or not self._settings.follows_cluster:
            return checked
        # The definition may have changed since it was read.
        with contextlib.suppress(APIError, UnreachableError):
            async with self._connect() as connection:
                await self._read_schemas(rule, connection)
        return await asyncio.to_thread(check)

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
        self._removed.update((path, rule) for path, rule in self.rules.items() if path not in rules)
        for former in self.rules.values():
            self._runner.forget(former)
        self.rules = rules
        self.problem = ""
        self._has_refused = False
        for path in self.rules:
            if path not in self._served:
                self._served.add(path)
                self.context.add_route(self._make_route(path))
        self.context.registration_changed.set()
        _log.info("admission rules reloaded: %s", ", ".join(one.name for one in self.rules.values()))
        return True


def _deny_unasked(_: AdmissionRequest) -> Response:
    raise AssertionError("the preparation refuses each review")


def find_path(rule: Hook) -> str:
    """Return the path of the route of a rule."""
    return build_rule_path(rule.name, mutates=rule.declaration.mutates)


def _list_directories(paths: Iterable[Path]) -> set[Path]:
    """Return the directories to watch: editors replace files, and the kubelet replaces links beside them."""
    files = [one for path in paths for one in (path.absolute(), path.resolve(), *find_modules(path.absolute()))]
    return {one.parent for one in files if one.parent.is_dir()}


def _read_texts(paths: Sequence[Path]) -> Mapping[Path, bytes]:
    """Return the texts of the files that can be read, and of the modules beside them, which they may import."""
    found = {}
    for one in {*paths, *(beside for path in paths for beside in find_modules(path))}:
        with contextlib.suppress(OSError):
            found[one] = one.read_bytes()
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
