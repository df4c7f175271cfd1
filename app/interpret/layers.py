"""The layers of interpreting, as the server and the commands ask them."""

from collections.abc import Sequence
from typing import Final

from app.interpret.chain import Chain, Layer, NativeLayer, Observe, PythonLayer
from app.interpret.lua.bundle import load_bundle_rules
from app.interpret.lua.customizations import Customizations
from app.interpret.lua.layer import LuaLayer
from app.interpret.lua.runner import Runner
from app.interpret.python_interpreter import Interpreter


def assemble_chain(
    customizations: Customizations,
    hooks: Layer,
    interpreters: Sequence[Interpreter],
    runner: Runner,
    *,
    bundle: bool,
    observe: Observe,
) -> Chain:
    """Return the chain: the user's scripts, hooks, interpreters in Python, the bundle, what is built in.

    Args:
        customizations: Scripts of users.
        hooks: The webhooks of configurations.
        interpreters: What users wrote in Python.
        runner: What runs scripts.
        bundle: Whether the bundle is asked.
        observe: Told of each call of a script.
    """
    layers: Final[list[Layer]] = [
        LuaLayer("lua", customizations.rules, runner, observe=observe),
        hooks,
        PythonLayer(interpreters),
    ]
    if bundle:
        load_bundle_rules()  # read now, and not when somebody waits for an answer
        layers.append(LuaLayer("bundle", load_bundle_rules, runner, observe=observe))
    return Chain([*layers, NativeLayer()])
