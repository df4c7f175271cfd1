"""The pattern matcher of the sandbox answers as the matcher of Lua 5.1 in C, which gopher-lua follows."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lupa import lua51, lua54

from fleethook.engines.interpret.lua.lua_documents import expect_list
from fleethook.engines.interpret.lua.lua_machine import Machine
from tests.engines.interpret.lua.machines import LONG, SHORT, call, program, value
from tests.hypothesis_profiles import examples

MACHINE = Machine()
C = lua54.LuaRuntime(unpack_returned_tuples=True)
MACHINE_OF_C = lua51.LuaRuntime(unpack_returned_tuples=True)

SUBJECTS = [
    "",
    "a",
    "hello world",
    "key = value",
    "  trim  ",
    "a.b.c",
    "f(a(b)c)d",
    "THE (quick) fox",
    "x=1, y=2",
    "aaa",
    "abcabc",
    "1,2,,3",
]
PATTERNS = [
    "", "a", "l+", "l*", "l-", "o?", "^h", "d$", "^$", "%a+", "%s*(%S+)%s*", "(%w+) = (%w+)", "[^,]*", "[a-c]+", "[%w_]+",
    "%b()", "%f[%a]%a+", "(.)(.)", "()l()", "(a)%1", "((a)b)", "%.", "[]]", "[^]]+", "[a-]", ".-", "^(.-)%s*$", "%u%l*",
    "x=(%d), y=(%d)", "(a*)(b*)", "%d%d?", "[%]x]", "%f[^%w]",
]  # fmt: skip


def both(function: str, *arguments: Any) -> tuple[Any, Any]:
    """Return the results of a function of `string` in the sandbox and in C."""
    source = f"function F(a) return {{pcall(string.{function}, unpack(a.arguments, 1, {len(arguments)}))}} end"
    ours = call(source, {"arguments": list(arguments)}, machine=MACHINE, limits=LONG)
    theirs = C.eval(f"function(...) return {{pcall(string.{function}, ...)}} end")(*arguments)
    return ours, [theirs[i] for i in range(1, len(theirs) + 1)]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("function", ["find", "match", "gsub", "gmatch"])
def test_long_strings_are_matched_as_in_c(function: str, pattern: str) -> None:
    for subject in SUBJECTS:
        for long in (subject + "~" * 700, "~" * 700 + subject, subject * 90):
            script = {
                "find": "return {string.find(a.s, a.p)}",
                "match": "return {string.match(a.s, a.p)}",
                "gsub": "local s, n = string.gsub(a.s, a.p, '<%0>') return {s, n}",
                "gmatch": "local t = {} for x, y in string.gmatch(a.s, a.p) do t[#t + 1] = x t[#t + 1] = y or 'none' end return t",
            }[function]
            ours = call(f"function F(a) {script} end", {"s": long, "p": pattern}, machine=MACHINE, limits=LONG)
            if function == "gmatch" and pattern.startswith("^"):  # Lua 5.1's gmatch matches "^" literally
                first = MACHINE_OF_C.eval("string.match")(long, pattern)
                assert expect_list(ours, function) == ([] if first is None else [first, "none"])
                continue
            theirs = MACHINE_OF_C.execute(f"return function(a) {script} end")(MACHINE_OF_C.table(s=long, p=pattern))
            assert expect_list(ours, function) == list(theirs.values())


@given(st.text(alphabet="ab.", max_size=30), st.text(alphabet="ab.%*+-?()[]^$", max_size=8))
@settings(max_examples=examples(400))
def test_random_patterns_are_matched_or_refused_as_in_c(subject: str, pattern: str) -> None:
    # More repetitions take exponential time in C.
    assume(sum(map(pattern.count, "*+-")) <= 1)
    long = subject + "ab" * 300
    ours, theirs = both("find", long, pattern)
    assert ours[0] == theirs[0]
    if ours[0]:
        assert ours == theirs


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("string.find(nil, 'a')", "bad argument #1 to 'find' (string expected, got no value)"),
        ("string.gsub('a', 'a', nil)", "bad argument #3 to 'gsub'"),
        ("string.find('a', '[a')", "malformed pattern (missing ']')"),
        ("string.find(('a'):rep(900), '[a')", "malformed pattern (missing ']')"),
        ("string.find(('a'):rep(900), '%')", "malformed pattern (ends with '%')"),
        ("string.find(('a'):rep(900), '(a')", "unfinished capture"),
        ("string.find(('a'):rep(900), '.)')", "invalid pattern capture"),
        ("string.find(('a'):rep(900), '%1')", "invalid capture index"),
        ("string.gsub(('a'):rep(900), 'a*a', '%2')", "invalid capture index"),
        ("string.format(nil)", "bad argument #1 to 'format'"),
        ("string.rep('x', 1e10)", "resulting string too large"),
        ("string.dump(print)", "string.dump is not available to interpreters"),
    ],
)
def test_error_of_a_library_function_names_the_line(expression: str, text: str) -> None:
    with pytest.raises(Exception, match=r"script:1|more than") as caught:
        value(expression, {})
    assert text in str(caught.value)


@pytest.mark.parametrize("function", ["find(s, p)", "match(s, p)", "gmatch(s, p)()", "gsub(s, p, '')"])
def test_exponential_pattern_ends_at_the_deadline(function: str) -> None:
    source = f"function F(a) local s, p = ('a'):rep(26), ('a?'):rep(26) .. ('a'):rep(26) return string.{function} end"
    machine = Machine()
    with pytest.raises(Exception, match=r"took more than 0\.3 s"):
        machine.call(program(source), "F", [{}], results=1, limits=SHORT)
