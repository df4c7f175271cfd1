"""The Lua runtimes of lupa, and the figures that decided for 5.4: cost of a machine, a callback and code under a hook."""

import importlib
from typing import Any, NamedTuple

from benchmarks.engines.measure import cpu_us

NAMES = ("lua51", "luajit21", "lua54", "lua55")
LOOP = "local t, s = {}, 0 for i = 1, 20000 do local x = {a = i, b = 2} s = s + x.a * x.b t[i % 100] = x end return s"
SECONDS = 0.2


class Runtime(NamedTuple):
    """The cost of a runtime in microseconds, and its features."""

    name: str
    machine: float
    callback: float
    code: float
    hooked: float
    exact: bool
    limited: bool


def measure(name: str) -> Runtime:
    """Measure one of the runtimes."""
    module: Any = importlib.import_module(f"lupa.{name}")
    runtime = module.LuaRuntime(register_eval=False, register_builtins=False, unpack_returned_tuples=True)
    if name.startswith("luajit"):
        runtime.execute("jit.off(true, true) jit.off()")  # compiled code calls no hook
    code = runtime.eval(f"function() {LOOP} end")
    runtime.globals().host = lambda handle: (handle, "name", 1, "value", "text")
    callback = runtime.eval("function() for i = 1, 100 do local t = {host(i)} end end")
    machine = cpu_us(lambda: module.LuaRuntime(register_eval=False, register_builtins=False), SECONDS)
    plain, back = cpu_us(code, SECONDS), cpu_us(callback, SECONDS) / 100
    runtime.execute("debug.sethook(function() end, '', 100)")
    hooked = cpu_us(code, SECONDS)
    exact = bool(runtime.eval("9007199254740993 ~= 9007199254740992"))
    limited = module.LuaRuntime(max_memory=1 << 20).get_max_memory() == 1 << 20
    return Runtime(name, machine, back, plain, hooked, exact, limited)
