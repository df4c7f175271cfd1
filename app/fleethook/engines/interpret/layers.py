"""Assembles the chain of layers for the server and for the commands."""

from collections.abc import Sequence
from typing import Final

from fleethook.cluster.store import StoreView
from fleethook.engines.interpret.chain import Chain, Layer, NativeLayer, Observe, PythonLayer
from fleethook.engines.interpret.lua.bundle import BundleLayer
from fleethook.engines.interpret.lua.customizations import Customizations
from fleethook.engines.interpret.lua.layer import LuaLayer
from fleethook.engines.interpret.lua.runner import Runner
from fleethook.interpret.python_interpreter import Interpreter


def assemble_chain(
    customizations: Customizations,
    hooks: Layer,
    interpreters: Sequence[Interpreter],
    runner: Runner,
    *,
    bundle: StoreView | None,
    observe: Observe,
    traces: bool = False,
    conventions: Layer | None = None,
) -> Chain:
    """Return the chain: Lua customizations, hooks, Python interpreters, the bundle, native interpreters, conventions.

    Args:
        customizations: The customizations in the store.
        hooks: The webhooks of hook configurations.
        interpreters: Python interpreters of users.
        runner: Runs the scripts.
        bundle: CustomResourceDefinitions, which tell the bundle the kinds of Crossplane; None without the bundle.
        observe: Called after each call of a script.
        traces: Add the answers of webhooks and scripts to the chain's answers.
        conventions: The layer for kinds that no other layer knows, None without it.
    """
    layers: Final[list[Layer]] = [
        LuaLayer("lua", customizations.rules, runner, observe=observe),
        hooks,
        PythonLayer(interpreters),
    ]
    if bundle is not None:
        layers.append(BundleLayer(runner, observe=observe, definitions=bundle))
    layers.append(NativeLayer())
    if conventions is not None:
        layers.append(conventions)
    return Chain(layers, traces=traces, replaces_karmada=bundle is not None)
