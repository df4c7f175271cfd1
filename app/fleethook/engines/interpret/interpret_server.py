"""The interpreters of a running server: routes, chain of layers, checks, and the tasks of the leader."""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from prometheus_client.registry import Collector

from fleethook.cluster.followed_objects import Followed
from fleethook.cluster.kubernetes.watched_resources import DEFINITIONS, INTERPRETING, karmada_config
from fleethook.cluster.registration.paths import (
    EXPLORE,
    EXPLORE_BAR,
    EXPLORE_FOO,
    INTERPRET,
    VALIDATE_CONFIG_MAP,
    VALIDATE_CUSTOMIZATION,
    VALIDATE_HOOKS,
)
from fleethook.cluster.registration.webhook_configurations import find_reference
from fleethook.cluster.store import ObjectKey, Stored
from fleethook.engines.interpret.interpret_settings import InterpretSettings
from fleethook.engines.interpret.interpreter_chain import Chain, PythonLayer
from fleethook.engines.interpret.layer_order import assemble_chain
from fleethook.engines.interpret.lua.customizations_in_use_and_admission import Customizations, validate_scripts
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner
from fleethook.engines.interpret.review.interpret_endpoint import InterpretEndpoint
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import (
    REGISTERED_FROM,
    build_configuration,
    select_from_store,
    validate_configuration,
)
from fleethook.engines.interpret.webhooks.webhook_layer import RecordedWebhookLayer, WebhookLayer
from fleethook.interpret.interpreter import interpreter, load
from fleethook.model.formats.client_config_and_addresses import parse_fixed_addresses
from fleethook.model.json import JSONObject
from fleethook.model.karmada import (
    CONFIG_MAP,
    CUSTOMIZATION,
    EXPLORING_CONFIGURATION,
    INTERPRETER_CONFIGURATION,
    InterpreterRegistration,
    InterpretReview,
)
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.server.engine_server import EngineServer, ServerContext
from fleethook.server.health import Check
from fleethook.server.metrics import CallDurations
from fleethook.server.reviews.admission_endpoint import ReviewHandler, ReviewRoute, make_admission_route
from fleethook.settings import Settings

_log: Final = logging.getLogger(__name__)

foo = interpreter("foo.example.com/v1alpha1", "Foo")
bar = interpreter("bar.example.com/v1alpha1", "Bar")


@foo.retain
def retain_size(desired: dict[str, Any], observed: dict[str, Any]) -> None:
    """Keep the size that the member cluster's controller chose."""
    if "size" in observed.get("spec", {}):
        desired.setdefault("spec", {})["size"] = observed["spec"]["size"]


@foo.healthy
def is_foo_ready(observed: dict[str, Any]) -> bool:
    """Return whether the phase of a Foo is Ready."""
    return bool(observed.get("status", {}).get("phase") == "Ready")


@bar.dependencies
def list_dependencies(declared: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the ConfigMap and the Secret that a Bar reads."""
    spec = declared.get("spec", {})
    return [
        {"apiVersion": "v1", "kind": kind, "namespace": spec.get("namespace", "default"), "name": spec[member]}
        for kind, member in (("ConfigMap", "configMapName"), ("Secret", "secretName"))
        if spec.get(member)
    ]


@bar.healthy
def is_bar_ready(observed: dict[str, Any]) -> bool:
    """Return whether all instances of a Bar are ready."""
    status = observed.get("status", {})
    return bool(status.get("ready", 0) >= observed.get("spec", {}).get("wanted", 1))


_INTERPRETED_FROM = (
    EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION, CUSTOMIZATION, CONFIG_MAP, DEFINITIONS.group_kind,
)  # fmt: skip


def interpret_routes(everything: Chain, validate: ReviewHandler) -> list[ReviewRoute]:
    """Return the routes of interpreters.

    Args:
        everything: The chain of all layers.
        validate: Answers reviews of objects that have scripts.
    """
    chains = (
        (EXPLORE, "Answer an ExploreReview of any kind and operation", everything, _INTERPRETED_FROM),
        (INTERPRET, "Answer a ResourceInterpreterContext of any kind and operation", everything, _INTERPRETED_FROM),
        (EXPLORE_FOO, "Example hook for Foo: retaining, health", Chain([PythonLayer([foo])]), ()),
        (EXPLORE_BAR, "Example hook for Bar: dependencies, health", Chain([PythonLayer([bar])]), ()),
    )
    validation = "Validate a ResourceExploring- or ResourceInterpreterWebhookConfiguration"
    scripts = "Validate a ResourceInterpreterCustomization and its Lua"
    return [
        make_admission_route(VALIDATE_HOOKS, validation, validate_configuration, pure=True),
        make_admission_route(VALIDATE_CUSTOMIZATION, scripts, validate, needs=(CUSTOMIZATION,)),
        make_admission_route(VALIDATE_CONFIG_MAP, "Refuse a karmada-config whose Lua does not compile", validate),
        *(
            ReviewRoute(path, summary, partial(InterpretEndpoint, chain=chain), InterpretReview, needs)
            for path, summary, chain, needs in chains
        ),
    ]


def list_resources(settings: Settings) -> Followed:
    """Return the kinds that interpreters depend on."""
    return Followed((*INTERPRETING, karmada_config(settings.section(InterpretSettings).karmada_namespace)))


class InterpretServer(EngineServer):
    """Interprets resources, and checks the objects that define interpreters.

    Attributes:
        client: Calls webhooks of interpreters.
        customizations: The scripts of customizations in the store.
        runner: Runs scripts.
        chain: The layers of interpreters.
    """

    def __init__(self, context: ServerContext) -> None:
        """Prepare; raises `fleethook.interpret.interpreter.LoadError`."""
        super().__init__(context)
        settings, store = context.settings.section(InterpretSettings), context.store
        self._settings: Final = settings
        self.registers = settings.chosen_registration is not InterpreterRegistration.OFF
        self._left_out: Sequence[object] = ()
        if self.registers:
            store.subscribe(self._mark_changed)
        self.client: Final = HookClient(allow_private=True, fixed=parse_fixed_addresses(settings.resolve))
        self._calls: Final = CallDurations(
            "fleethook_hook_call_duration_seconds",
            "Duration of calls of interpreter webhooks, by outcome: answered, failed, ignored. Names beyond 200 "
            "count as `other`.",
            "hook",
        )
        self._scripts: Final = CallDurations(
            "fleethook_script_duration_seconds",
            "Duration of Lua scripts, by rule and outcome: answered, or the kind of the error. Names beyond 200 count "
            "as `other`.",
            "rule",
        )
        self.customizations: Final = Customizations(store, namespace=settings.karmada_namespace)
        self.runner: Final = Runner()
        self.runner.prepare()
        make_hooks = RecordedWebhookLayer if context.is_replay else WebhookLayer
        self.chain: Final = assemble_chain(
            self.customizations,
            make_hooks(store, self.client, observe=self._calls.count),
            [one for source in settings.interpreters for one in load(source)],
            self.runner,
            bundle=settings.bundle,
            conventions=settings.interpret_conventions,
            observe=self._scripts.count,
            traces=context.traces_calls,
        )

    def routes(self) -> list[ReviewRoute]:
        """Return the routes of questions and of the admission of interpreters."""
        store, settings = self.context.store, self._settings
        validate = partial(validate_scripts, store=store, runner=self.runner, namespace=settings.karmada_namespace)
        return interpret_routes(self.chain, validate)

    def checks(self) -> Iterator[Check]:
        """Return a check for each customization that is not used in its newest version."""
        return self.customizations.checks()

    def collectors(self) -> Iterator[Collector]:
        """Yield the metrics of calls, and the gauges of customizations."""
        yield from (self._calls, self._scripts, *self.customizations.collectors())

    async def open(self) -> None:
        """Open the client."""
        await self.client.open()

    async def close(self) -> None:
        """End the threads of scripts, and close the client."""
        self.runner.close()
        await self.client.close()

    def _mark_changed(self, key: ObjectKey, _before: Stored | None, _after: JSONObject | None) -> None:
        if key.group_kind in REGISTERED_FROM:
            self.context.registration_changed.set()

    def configurations(self) -> list[JSONObject]:
        """Return the ResourceInterpreterWebhookConfiguration; logs the kinds that other webhooks have already."""
        from_store = select_from_store(self.context.store, self.chain.answers(), self._settings.chosen_registration)
        if from_store.left_out != self._left_out:
            self._left_out = from_store.left_out
            for one in from_store.left_out:
                _log.warning("%s", one)
        return [build_configuration(from_store.rules, find_reference(self.context.settings).client_config(INTERPRET))]
