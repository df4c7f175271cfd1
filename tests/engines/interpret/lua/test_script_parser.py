import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.interpret.lua.script_parser import parse_script, wrap_body
from fleethook.engines.interpret.lua.script_scanner_and_rewriter import LuaSyntaxError
from tests.engines.interpret.lua.machines import call


@pytest.mark.parametrize(
    ("source", "line", "text"),
    [
        ("function F(", 1, "a name is expected"),
        ("x = = 1", 1, "unexpected symbol near '='"),
        ("\n\nlocal x = 'abc\n", 3, "unexpected symbol near"),
        ("\n\nx = [==[ abc ]=]", 3, "]==] is missing"),
        ("if x then\n\n", 3, "'end' expected (to close 'if' of line 1)"),
        ("function F()\n if x then\n  y()\n end\n", 5, "'end' expected (to close 'function' of line 1)"),
        ("f(", 1, "unexpected symbol near '<eof>'"),
        ("f() = 1", 1, "a call cannot be assigned to"),
        ("a.b", 1, "'=' or a call is expected"),
        ("local x <const> = 1", 1, "unexpected symbol near '<'"),
        ("x = 7 // 2", 1, "unexpected symbol near '/'"),
        ("x = 1 & 2", 1, "unexpected symbol near '&'"),
        ("return ...", 1, "cannot use '...' outside a vararg function"),
        ("function F() return ... end", 1, "cannot use '...' outside a vararg function"),
        ("__fleethook_t = nil", 1, "names that begin with __fleethook_ are reserved"),
        ("x = " + "(" * 1000 + "1" + ")" * 1000, 1, "nested more than 150 deep"),
        ("x = " + "{" * 100_000, 1, "nested more than 150 deep"),
        ("return 1 x = 2", 1, "unexpected symbol near 'x'"),
        ("goto 1", 1, "a name is expected"),
    ],
)
def test_invalid_lua_is_refused_with_its_line(source: str, line: int, text: str) -> None:
    with pytest.raises(LuaSyntaxError) as caught:
        parse_script(source)
    assert text in str(caught.value)
    assert caught.value.line == line


EVERYTHING = r"""
-- a remark
--[==[ a long
comment ]==]
local one, two = 1, [[
long]]
local function helper(...)
  local n = select("#", ...)
  do local unused = {...} end
  return n
end
local object = {}
function object.plain(x) return x end
function object:method(x) return self.y + x end
object.y = 0x10
local total = 0
for i = 10, 1, -2 do total = total + i end
for _, v in ipairs({1, 2; 3}) do if v == 2 then break end total = total + v end
for k, v in pairs({a = 1, ["b"] = 2, [two] = 3}) do total = total + v end
while total > 1000 do total = total - 1 end
repeat local done = true; total = total + 1 until done
if total < 0 then total = 0 elseif total == 1 then total = 1 else total = total end
goto over
total = 0
::over::
function F(a)
  local s = "a\65\"\'\\ \q\." .. 'x' .. tostring(-2 ^ 2) .. (not nil and "t" or "f")
  local f = helper(1, nil, 2) + #"abc" + object:method(1) + object.plain{5}[1] + #{f = 1}
  local chained = ("%s"):format "z"
  return s .. " " .. f .. " " .. total .. chained, a
end
"""


def test_complete_syntax_of_lua_5_1_runs() -> None:
    assert call(EVERYTHING, {}) == "aA\"'\\ q.x-4t 28 38z"


def test_rewriting_keeps_line_numbers() -> None:
    source = "function F(a)\n  local x = {\n    b = 1 / 1,\n    c = {}\n  }\n  return a.nothing.more\nend"
    assert parse_script(source).runnable.count("\n") == source.count("\n")
    with pytest.raises(Exception, match=r"^script:6: attempt to index a nil value \(field 'nothing'\)$"):
        call(source, {})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("local t = a t.new = 1", "zeta alpha mid new"),
        ("local t = a.mid t.c = 1 t.a = nil", "b c"),
        ("local t = {} for k in pairs(a) do t[k] = 1 end", "zeta alpha mid"),
        ("local t = {} for i = 1, 30 do t['k' .. 31 - i] = i end", " ".join(f"k{30 - i}" for i in range(30))),
    ],
)
def test_pairs_of_documents_in_the_order_of_insertion(source: str, expected: str) -> None:
    script = (
        f"function F(a) {source} local s = {{}} for k in pairs(t) do s[#s + 1] = k end return table.concat(s, ' ') end"
    )
    assert call(script, {"zeta": 1, "alpha": 2, "mid": {"b": 1, "a": 2}}) == expected


def test_loop_can_remove_members() -> None:
    source = "function F(a) for k, v in pairs(a) do if v % 2 == 0 then a[k] = nil end end return a end"
    assert call(source, {f"k{i}": i for i in range(20)}) == {f"k{i}": i for i in range(1, 20, 2)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("function F() end", []),
        ("helper = 1 function F() return helper end", ["1: helper is set as a global"]),
        ("function help() end function F() return help() end", ["1: function help is global"]),
        ("help = function() end function F() return help() end", ["1: function help is global"]),
        ("function F(a)\n  count = 1\n  return a\nend", ["2: count is set as a global"]),
        ("function F(a)\n  local x, y = 1\n  x, z = 1, 2\n  return a\nend", ["3: z is set as a global"]),
        ("function F(desiredObj)\n  return desireObj\nend", ["2: desireObj is undefined"]),
        ("function F(a) return pairs(a), string.len('x'), _G end", []),
        ("local x = 1 function F() x = 2 for i = 1, 2 do local y = i y = 1 end end", []),
        ("local function f() end local t = {} function t.g() end function t:h() return self end", []),
        ("repeat local done = true until done", []),
    ],
)
def test_suspicious_code_is_listed(source: str, expected: list[str]) -> None:
    known = frozenset({"pairs", "string", "_G"})
    found = [
        f"{one.line}: {one.text}" for one in parse_script(source, known=known).findings if "function F" not in one.text
    ]
    assert len(found) == len(expected)
    for text, beginning in zip(found, expected, strict=True):
        assert text.startswith(beginning)


@pytest.mark.parametrize(
    ("body", "returns"),
    [
        ("return 1", True),
        ("return", False),
        ("", False),
        ("if x then return 1 end", False),
        ("if x then return 1 else return 2 end", True),
        ("if x then return 1 elseif y then return 2 else error('no') end", True),
        ("if x then return 1 elseif y then else return 2 end", False),
        ("do return 1 end", True),
        ("while true do return 1 end", False),
        ("repeat return 1 until true", True),
        ("local function g() return 1 end", False),
        ("return function() end", True),
    ],
)
def test_function_returns_on_every_path(body: str, *, returns: bool) -> None:
    assert parse_script(f"function F(x, y) {body} end").functions["F"].returns is returns


def test_wrapped_body_returns_its_first_parameter_by_default() -> None:
    body = wrap_body("a.x = b.y", name="F", parameters=("a", "b"))
    assert call(body, {"z": 1}, {"y": 2}) == {"z": 1, "x": 2}
    body = wrap_body("if b.y then return b end -- or nothing", name="F", parameters=("a", "b"))
    assert call(body, {"z": 1}, {"y": 2}) == {"y": 2}
    assert call(body, {"z": 1}, {}) == {"z": 1}
    body = wrap_body("a.x = 1\nreturn a", name="F", parameters=("a", "b"))
    assert call(body, {"z": 1}, {}) == {"z": 1, "x": 1}


@given(st.text(alphabet="function end()={}[]'\"\\.,;: \nxy12+-*/^%#~<>returnlocalif", max_size=80))
def test_random_source_is_parsed_or_refused(source: str) -> None:
    with contextlib.suppress(LuaSyntaxError):
        assert parse_script(source).runnable.count("\n") == source.count("\n")
