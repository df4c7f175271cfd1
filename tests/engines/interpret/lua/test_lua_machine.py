"""The sandbox of a machine: its globals, the isolation of calls, and their limits."""

import gc
import weakref

import pytest

from fleethook.engines.interpret.lua.lua_machine import LuaError, Machine, ScriptLimits
from fleethook.engines.interpret.lua.script_layer_and_runner import SCRIPT_LIMITS
from tests.engines.interpret.lua.machines import SHORT, call, program, value
from tests.waiting import NET

EXPECTED_GLOBALS = {
    "_G", "_VERSION", "assert", "error", "ipairs", "next", "pairs", "pcall", "print", "require", "select", "tonumber",
    "tostring", "type", "unpack", "xpcall", "string", "table", "math", "os",
}  # fmt: skip
REFUSED = {
    "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "rawequal", "rawget",
    "rawset", "setfenv", "setmetatable", "module", "newproxy",
}  # fmt: skip


def test_globals_are_exactly_those_of_the_sandbox() -> None:
    assert Machine().names() == EXPECTED_GLOBALS | REFUSED


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_global_raises_an_error(name: str) -> None:
    with pytest.raises(LuaError, match=f"^script:1: {name} is not available to interpreters$"):
        call(f"function F(a) local x = {name}('') return a end", {})


def test_libraries_have_exactly_these_members() -> None:
    members = value(
        "(function() local t = {} for _, n in ipairs({'string', 'table', 'math', 'os'}) do t[n] = {} for k in pairs(_G[n]) do table.insert(t[n], k) end table.sort(t[n]) end return t end)()",
        {},
    )
    assert members["os"] == ["date", "time"]
    assert members["table"] == ["concat", "getn", "insert", "maxn", "remove", "sort", "unpack"]
    assert members["string"] == [
        "byte", "char", "dump", "find", "format", "gfind", "gmatch", "gsub", "len", "lower", "match", "rep", "reverse",
        "sub", "upper",
    ]  # fmt: skip
    assert "random" in members["math"]


def test_require_returns_the_libraries_as_in_karmada() -> None:
    expression = "function F() local os = require('os') return {os.time{year=2020, month=1, day=1, hour=0} > 0, %s} end"
    same = ", ".join(f"require('{name}') == {name}" for name in ("string", "table", "math", "os"))
    assert call(expression % same) == [True] * 5
    with pytest.raises(LuaError, match="module 'io' not found"):
        call("function F() return require('io') end")


@pytest.mark.parametrize(
    "leak",
    [
        "left = 1",
        "_G.left = 1",
        "string.left = 1",
        "table.insert(table, 1) table.left = 1",
        "require('kube').left = 1",
        "require('fleet').left = 1",
        "require('string').left = 1",
        "math.left = 1 os.left = 1",
        "function left() end",
        "string.format = function() return 'broken' end",
        "table.concat = nil pairs = nil",
        "require('kube').resourceAdd = function() return 'broken' end",
        "math.randomseed(7)",
    ],
)
def test_nothing_survives_a_call(leak: str) -> None:
    machine = Machine()
    look = """function F()
      local left = {left or 0, string.left or 0, table.left or 0, require('kube').left or 0, require('fleet').left or 0}
      return {left, math.left or 0, string.format('%d', 1), ('%d'):format(2), table.concat({'a', 'b'}), type(pairs),
        require('kube').resourceAdd('1', '2'), math.random(1000)}
    end"""
    expected = call(look, {}, machine=Machine())
    call(f"{leak}\nfunction F(a) {leak} return a end", {}, machine=machine)
    assert call(look, {}, machine=machine) == expected
    with pytest.raises(LuaError):
        machine.call(program("function F() error('x') end"), "F", [{}], results=1, limits=SCRIPT_LIMITS)
    assert call(look, {}, machine=machine) == expected


def test_function_of_another_script_is_never_found() -> None:
    machine = Machine()
    machine.call(program("function Retain(a) return a end"), "Retain", [{}], results=1, limits=SCRIPT_LIMITS)
    with pytest.raises(LuaError, match="there is no function Retain") as caught:
        machine.call(program("function Other(a) return a end"), "Retain", [{}], results=1, limits=SCRIPT_LIMITS)
    assert caught.value.kind == "missing"


def test_changed_library_affects_only_its_call() -> None:
    source = "string.upper = string.lower function F(a) return {('Ab'):upper(), string.upper('Ab')} end"
    assert call(source, {}) == ["ab", "ab"]


def test_the_same_script_gives_the_same_answer() -> None:
    source = "function F() local t = {} for i = 1, 5 do t[i] = math.random(1000) end return t end"
    assert call(source, {}) == call(source, {})


@pytest.mark.parametrize(
    ("source", "kind", "text"),
    [
        ("function F()\n  while true do end\nend", "deadline", "script:2: F took more than 0.2 s"),
        ("while true do end function F() end", "deadline", "script:1: F took more than 0.2 s"),
        ("function F()\n  local t = {}\n  while true do t[#t + 1] = {} end\nend", "memory", "script:3: F took more than 8 MiB"),
        ("function F() local s = 'x' while true do s = s .. s end end", "memory", "script:1: F took more than 8 MiB"),
        ("function F(a)\n  error('no')\nend", "script", "script:2: no"),
        ("function F(a)\n  error({})\nend", "script", "script:2: an error that is a table"),
        ("function F(a)\n  error()\nend", "script", "script:2: an error that is a nil"),
        ("function F(a)\n  error('x', 0)\nend", "script", "script:2: x"),
        ("function F(a)\n  local t = nil\n  return t.x\nend", "script", "script:3: attempt to index a nil value (local 't')"),
        ("function F(a) return a .. 1 end", "script", "script:1: attempt to concatenate a table value (local 'a')"),
        ("F = 7", "missing", "there is no function F"),
        ("function F() return string.rep('x', 5e6) end", "output", "script:1: F returned a result that is too large"),
        ("function F() local t = {} for i = 1, 40 do t = {t, t} end return t end", "output", "a result that is too large"),
        ("function F(a) local t = {} for i = 1, 9000 do t[i] = a end local u = {} for i = 1, 9000 do u[i] = t end return u end",
         "output", "a result that is too large"),
        ("function F() local t = {} local u = t for i = 1, 600 do u.x = {} u = u.x end return t end", "output", "too large"),
        ("error(string.rep('x', 100000))", "script", "x..."),
    ],
)  # fmt: skip
def test_kinds_of_errors(source: str, kind: str, text: str) -> None:
    with pytest.raises(LuaError) as caught:
        call(source, {"x": 1}, limits=ScriptLimits(0.2 if kind == "deadline" else 10, 10**10, 8 << 20))
    assert caught.value.kind == kind
    assert text in str(caught.value)
    assert len(str(caught.value)) < 1200


def test_instructions_are_limited() -> None:
    with pytest.raises(LuaError, match="took more than 100000 instructions") as caught:
        call(
            "function F() for i = 1, 1e9 do end end",
            {},
            limits=SCRIPT_LIMITS._replace(seconds=10, instructions=100_000),
        )
    assert caught.value.kind == "instructions"
    call(
        "function F(a) for i = 1, 1e4 do end return a end",
        {},
        limits=SCRIPT_LIMITS._replace(seconds=10, instructions=100_000),
    )


@pytest.mark.parametrize(
    "work",
    [
        "os.date(('%c'):rep(20000))",
        "os.date(long)",
        "long:upper()",
        "long:lower()",
        "long:reverse()",
        "long:sub(2)",
        "long:find('y', 1, true)",
        "long:find('y')",
        "long:match('y*$')",
        "long:gsub('y', 'z')",
        "string.rep('x', 1000000)",
        "string.format('%s', long)",
        "string.format('%1000000s', 'x')",
        "string.format('%.1000000d', 1)",
        "table.concat(list)",
        "table.concat(list, long)",
        "table.sort(list)",
        "kube.resourceAdd('1', '2')",
    ],
)
def test_work_of_library_functions_counts_as_instructions(work: str) -> None:
    source = f"""local kube = require('kube')
    function F()
      local long, list = ('x'):rep(1000000), {{}}
      for i = 1, 20 do list[i] = ('x'):rep(1000) end
      for i = 1, 10000 do local found = {work} end
    end"""
    with pytest.raises(LuaError) as caught:
        call(source, {}, limits=ScriptLimits(NET, 500_000, 64 << 20))
    assert caught.value.kind == "instructions"


def test_machine_is_spoiled_after_reaching_a_limit() -> None:
    machine = Machine()
    with pytest.raises(LuaError):
        call("function F() error('x') end", {}, machine=machine)
    assert not machine.spoiled
    with pytest.raises(LuaError):
        call("function F() while true do end end", {}, machine=machine, limits=SHORT)
    assert machine.spoiled


# The limits are checked after each hundred instructions: with so many lengths, also at each of the sandbox's own after the
# end of a script, where nothing catches an error.
@pytest.mark.parametrize("end", ["return o", "error('x')", "local ok = pcall(error) return o"])
@pytest.mark.parametrize("run", ["call", "try"])
def test_limit_after_the_end_of_a_script_fails_nothing(end: str, run: str) -> None:
    answers, machine, limits, too_long = set(), Machine(), SCRIPT_LIMITS._replace(seconds=NET, instructions=200), 0
    for length in range(320):
        text = f"local x {'x = 1 ' * length}"
        try:
            if run == "call":
                call(f"function F(o) {text} {end} end", {}, machine=machine, limits=limits)
            else:
                machine.try_(program(f"{text} function F(o) end {end.replace('return o', '')}"), limits)
            answers.add("answered")
        except LuaError as error:
            answers.add(error.kind)
        if not machine.spoiled:
            assert call("function F(o) return o end", {"a": 1}, machine=machine) == {"a": 1}
            continue
        machine, too_long = Machine(), too_long + 1
        if too_long > 20:
            break  # All longer scripts reach the limit before their end.
    assert answers == {"script" if "error" in end and "pcall" not in end else "answered", "instructions"}


def test_pcall_catches_errors_but_not_limits() -> None:
    caught = "function F() local ok, e = pcall(error, 'mine') return {ok, e, (select(2, pcall(nil)))} end"
    assert call(caught, {}) == [False, "mine", "attempt to call a nil value"]
    source = "function F() while true do pcall(function() while true do end end) end end"
    with pytest.raises(LuaError, match=r"took more than 0\.2 s"):
        call(source, {}, limits=SCRIPT_LIMITS._replace(seconds=0.2, instructions=10**9))


def test_printed_lines_are_kept_for_commands() -> None:
    machine = Machine()
    call("function F(a) print('one', 2, nil, a, {}) print() return a end", {}, machine=machine)
    assert machine.printed() == ["one\t2\tnil\ttable\ttable", ""]
    call("function F(a) for i = 1, 1000 do print(i) end return a end", {}, machine=machine)
    assert len(machine.printed()) == 100
    call("function F(a) return a end", {}, machine=machine)
    assert machine.printed() == []


def test_usage_of_a_call_is_known_also_after_an_error() -> None:
    machine = Machine()
    call("function F(a) for i = 1, 1000 do end return a end", {}, machine=machine)
    little = machine.usage()
    assert 1_000 <= little.instructions < 5_000
    source = "function F() local t = {} for i = 1, 50000 do t[i] = i end t = nil error('x') end"
    with pytest.raises(LuaError):
        call(source, {}, machine=machine)
    much = machine.usage()
    assert much.instructions > 50_000
    assert much.memory > 50_000 * 8 > little.memory


def test_machine_without_references_is_freed() -> None:
    machine = Machine()
    call("function F(a) return a.x end", {"x": [1]}, machine=machine)
    reference = weakref.ref(machine)
    gc.disable()
    try:
        del machine
        assert reference() is None
    finally:
        gc.enable()


def test_many_scripts_are_compiled_and_forgotten() -> None:
    machine = Machine()
    for i in range(1100):
        assert call(f"function F() return {i} end", {}, machine=machine) == i


def test_memory_of_earlier_calls_does_not_count() -> None:
    machine = Machine()
    source = "function F() local t = {} for i = 1, 60000 do t[i] = {} end return #t end"
    for _ in range(6):
        assert call(source, {}, machine=machine, limits=ScriptLimits(5, 10**9, 8 << 20)) == 60000


@pytest.mark.parametrize("name", ["error", "type", "next", "string", "table", "print", "os", "assert", "_G"])
def test_script_can_remove_a_global_for_its_call(name: str) -> None:
    machine = Machine()
    assert call(f"{name} = nil function F() return {name} == nil end", {}, machine=machine) is True
    assert call(f"function F() {name} = 7 return {name} end", {}, machine=machine) == 7
    assert call(f"function F() _G['{name}'] = nil return {name} == nil end", {}, machine=machine) is True
    assert call(f"function F() return {name} == nil end", {}, machine=machine) is False


def test_unpacking_is_bounded() -> None:
    assert value("select('#', unpack({}, 1, 8000))", {}) == 8000
    with pytest.raises(LuaError, match="too many results to unpack"):
        value("select('#', unpack({}, 1, 8001))", {})
