"""Assembles the chain of layers, in their order, for the server and for the commands."""

from collections.abc import Sequence
from typing import Final

from fleethook.engines.interpret.conventions.conventional_kinds import ConventionsLayer
from fleethook.engines.interpret.interpreter_chain import Chain, Layer, Observe, PythonLayer, ignore_call
from fleethook.engines.interpret.lua.bundled_and_crossplane_kinds import BundleLayer
from fleethook.engines.interpret.lua.customizations_in_use_and_admission import Customizations
from fleethook.engines.interpret.lua.script_layer_and_runner import LuaLayer, Runner
from fleethook.engines.interpret.native.native_kinds import NativeLayer
from fleethook.interpret.interpreter import Interpreter
from fleethook.model.karmada import ConventionsMode

LAYERS: Final = ("lua", "webhook", "python", "bundle", "native", "conventions")
"""The layers in the order in which they are asked."""


def assemble_chain(
    customizations: Customizations,
    webhooks: Layer,
    interpreters: Sequence[Interpreter],
    runner: Runner,
    *,
    bundle: bool = True,
    conventions: ConventionsMode = ConventionsMode.OFF,
    observe: Observe = ignore_call,
    traces: bool = False,
) -> Chain:
    """Return the chain: customizations in Lua, webhooks, Python interpreters, bundle, native interpreters, conventions.

    Args:
        customizations: The customizations in a store, which has CustomResourceDefinitions, too.
        webhooks: The webhooks of hook configurations.
        interpreters: Python interpreters of users.
        runner: Runs the scripts.
        bundle: Whether to include the bundle.
        conventions: The operations to answer for kinds that no other layer knows.
        observe: Called after each call of a script.
        traces: Add the answers of webhooks and scripts to the chain's answers.
    """
    layers: Final[list[Layer]] = [
        LuaLayer("lua", customizations.rules, runner, observe=observe),
        webhooks,
        PythonLayer(interpreters),
    ]
    if bundle:
        layers.append(BundleLayer(runner, observe=observe, definitions=customizations.store))
    layers.append(NativeLayer())
    if conventions is not ConventionsMode.OFF:
        layers.append(ConventionsLayer(customizations.store, conventions))
    return Chain(layers, traces=traces)
