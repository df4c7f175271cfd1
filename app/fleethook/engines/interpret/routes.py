"""The review routes of interpreters: questions of Karmada, and admission of interpreters."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from fleethook.cluster.kubernetes.resources import DEFINITIONS
from fleethook.cluster.registration.paths import (
    EXPLORE,
    EXPLORE_BAR,
    EXPLORE_FOO,
    INTERPRET,
    VALIDATE_CONFIG_MAP,
    VALIDATE_CUSTOMIZATION,
    VALIDATE_HOOKS,
)
from fleethook.engines.interpret.chain import Chain, PythonLayer
from fleethook.engines.interpret.hooks.hook_configuration_admission import validate_configuration
from fleethook.engines.interpret.review.interpret_endpoint import InterpretEndpoint
from fleethook.engines.interpret.samples.bar import bar
from fleethook.engines.interpret.samples.foo import foo
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.gvk import GroupKind
from fleethook.model.karmada import (
    CONFIG_MAP,
    CUSTOMIZATION,
    EXPLORING_CONFIGURATION,
    INTERPRETER_CONFIGURATION,
    InterpretReview,
)
from fleethook.server.reviews.admission_endpoint import ReviewRoute, make_admission_route
from fleethook.server.reviews.endpoint import Endpoint
from fleethook.work.slice_runner import Slices
from fleethook.work.slices import Sliced

_INTERPRETED_FROM = (
    EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION, CUSTOMIZATION, CONFIG_MAP, DEFINITIONS.group_kind,
)  # fmt: skip


def interpret_routes(
    everything: Chain, validate: Callable[[AdmissionRequest], Sliced[Response]], *, slices: Slices | None = None
) -> list[ReviewRoute]:
    """Return the routes of interpreters.

    Args:
        everything: The chain of all layers.
        validate: Answers reviews of objects that have scripts.
        slices: The turns that long checks take; None for turns of their own.
    """
    shared = slices or Slices()
    chains = (
        (EXPLORE, "Answer an ExploreReview of any kind and operation", everything),
        (INTERPRET, "Answer a ResourceInterpreterContext of any kind and operation", everything),
    )
    samples = (
        (EXPLORE_FOO, "Example hook for Foo: retaining, health", Chain([PythonLayer([foo])])),
        (EXPLORE_BAR, "Example hook for Bar: dependencies, health", Chain([PythonLayer([bar])])),
    )
    validation = "Validate a ResourceExploring- or ResourceInterpreterWebhookConfiguration"
    scripts = "Validate a ResourceInterpreterCustomization and its Lua"
    return [
        make_admission_route(VALIDATE_HOOKS, validation, validate_configuration, pure=True),
        make_admission_route(VALIDATE_CUSTOMIZATION, scripts, validate, needs=(CUSTOMIZATION,), slices=shared),
        make_admission_route(
            VALIDATE_CONFIG_MAP, "Refuse a karmada-config whose Lua does not compile", validate, slices=shared
        ),
        *_make_interpret_routes(chains, needs=_INTERPRETED_FROM),
        *_make_interpret_routes(samples, needs=()),
    ]


def _make_interpret_routes(
    chains: Iterable[tuple[str, str, Chain]], *, needs: tuple[GroupKind, ...]
) -> list[ReviewRoute]:
    return [
        ReviewRoute(path, summary, partial(_make_interpret_endpoint, chain=chain), InterpretReview, needs)
        for path, summary, chain in chains
    ]


def _make_interpret_endpoint(path: str, *, chain: Chain, **rest: Any) -> Endpoint:
    return InterpretEndpoint(path, chain, **rest)
