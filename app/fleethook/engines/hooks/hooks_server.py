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
from fleethook.cluster.store import StoreView
from fleethook.engine import EngineStartError
from fleethook.engines.hooks.hooks_settings import HooksSettings
from fleethook.engines.hooks.rule_runner import RuleRunner
from fleethook.model.admission import AdmissionRequest, Response, allowed, errored
from fleethook.model.gvk import GroupKind
from fleethook.server.engine_server import BackgroundTask, EngineServer, ServerContext
from fleethook.server.health import Check
from fleethook.server.reviews.admission_endpoint import ReviewRoute, make_admission_route

_log = logging.getLogger("fleethook.hooks")

PREFIX: Final = "/hooks/"
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
        settings = context.settings.section(HooksSettings)
        self._paths: Final = settings.hooks
        self._runner: Final = RuleRunner(settings)
        self._texts = _read_texts(self._paths)
        try:
            self.rules = self._load()
        except RuleError as error:
            raise EngineStartError(str(error)) from error
        self._served: Final = set(self.rules)
        self.problem = ""

    def _load(self) -> Mapping[str, Hook]:
        """Return the rules of the files by path; raises RuleError."""
        rules = load_rules(self._paths)
        for rule in rules:
            if rule.declaration.follows and self.context.cluster is not None:
                kind = rule.declaration.follows[0][1]
                raise RuleError(
                    f"{rule.place}: the rule {rule.name} follows {kind}, which a server of a cluster cannot do yet: "
                    "remove follows, or serve --manifests"
                )
        return {find_path(rule): rule for rule in rules}

    def routes(self) -> list[ReviewRoute]:
        """Return a route for each rule."""
        return [self._make_route(path) for path in self.rules]

    def _make_route(self, path: str) -> ReviewRoute:
        rule = self.rules[path]
        summary = f"{'Change' if rule.declaration.mutates else 'Validate'} objects by the rule {rule.name}"
        return make_admission_route(path, summary, partial(self._answer, path))

    def _answer(self, path: str, request: AdmissionRequest) -> Response | Any:
        rule = self.rules.get(path)
        if rule is None:
            return allowed(
                warnings=(f"fleethook has no rule {path.rpartition('/')[2]} any more; it admits the object",)
            )
        if reason := find_wrong_kind(rule.declaration, request):
            return errored(f"the rule {rule.name} does not decide about this request: {reason}")
        return self._runner.answer(rule, request, _snapshot(self.context.store, rule.declaration.followed))

    def checks(self) -> Iterable[Check]:
        """Return the check of the files. A broken file is not unready: the server answers by the former rules."""
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
        # Editors and the kubelet replace files, so the directories are watched.
        directories = {path.resolve().parent for path in self._paths}
        while True:
            watch = awatch(*directories, recursive=False, rust_timeout=_RESCAN_MS, yield_on_timeout=True)
            with contextlib.suppress(OSError):  # A directory may be missing for a moment.
                async with contextlib.aclosing(watch):
                    async for _ in watch:
                        await self.reload()
            await asyncio.sleep(1)

    async def reload(self) -> None:
        """Load the files if they have changed. With an error, the former rules stay."""
        texts = await asyncio.to_thread(_read_texts, self._paths)
        if texts == self._texts:
            return
        self._texts = texts
        try:
            self.rules = await asyncio.to_thread(self._load)
        except RuleError as error:
            self.problem = f"{error}; the former rules stay"
            _log.error("admission rules not reloaded: %s", self.problem)
            return
        self.problem = ""
        for path in self.rules:
            if path not in self._served:
                self._served.add(path)
                self.context.add_route(self._make_route(path))
        _log.info("admission rules reloaded: %s", ", ".join(one.name for one in self.rules.values()))


def find_path(rule: Hook) -> str:
    """Return the path of the route of a rule."""
    return f"{PREFIX}{'mutate' if rule.declaration.mutates else 'validate'}/{rule.name}"


def _read_texts(paths: Sequence[Path]) -> Mapping[Path, bytes]:
    """Return the texts of the files that can be read."""
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):
            found[path] = path.read_bytes()
    return found


def _snapshot(store: StoreView, kinds: frozenset[GroupKind]) -> Lookup:
    """Return the lookup of the present objects of some kinds: threads must not read a store that changes."""
    found: dict[GroupKind, list[Any]] = {kind: list(store.each("", kind)) for kind in kinds}
    return lambda kind: found.get(kind, ())
