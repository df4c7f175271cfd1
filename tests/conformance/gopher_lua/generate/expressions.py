"""Random expressions of Lua, by subject."""

from collections.abc import Callable
from random import Random
from typing import Final

INTEGERS: Final = (
    "0",
    "1",
    "2",
    "3",
    "7",
    "10",
    "12",
    "64",
    "100",
    "255",
    "1000",
    "4096",
    "65536",
    "1000000",
    "9007199254740993",
)
FRACTIONS: Final = (
    "0.1",
    "0.5",
    "0.25",
    "1.5",
    "2.75",
    "3.14159",
    "99.9",
    "1e-3",
    "1.25e-7",
    "123456.789",
    "1234567.5",
)
LARGE: Final = (
    "1e15",
    "2^53",
    "2^62",
    "2^63",
    "1e16",
    "1e19",
    "1e20",
    "1e21",
    "1.7e19",
    "1e300",
    "math.huge",
    "1/0",
    "0/0",
    "(-1/0)",
)
NUMERIC_TEXTS: Final = (
    "'10'", "'3'", "'7'", "'0x10'", "'010'", "' 5 '", "'1e2'", "'2.50'", "'-4'", "'+6'", "'0b11'", "'1_000'", "'.5'", "'5.'",
    "'0'", "'99999999999999999999'", "'\\t8\\n'",
)  # fmt: skip
OTHER_TEXTS: Final = (
    "''", "'abc'", "'x'", "'10 Gi'", "'0x'", "'1e'", "'--1'", "'a,b,,c'", "'Hello World'", "'key=value'", "'v1.27.3-rc.1'",
    "'  padded  '", "'100m'", "'16Gi'", "'a.b.c'", "'[x]'", "'%d'", "'nan'", "'ÄÖ'", "'straße'", "'tab\\tnew\\nline'", "'aaaa'",
    "'(a(b)c)'", "'CamelCaseText'", "'nginx:1.25'", "'50%'",
)  # fmt: skip
ANYTHING: Final = ("nil", "true", "false", "{}", "{1, 2}", "print")
SCALARS: Final = ("nil", "true", "false")
PATTERNS: Final = (
    "'%d+'", "'%a+'", "'^%s*(.-)%s*$'", "'([^,]*),?'", "'(%w+)=(%w+)'", "'%.'", "'.'", "'x*'", "'a-'", "'^a'", "'c$'", "'[%w_]+'",
    "'[^%d]'", "'()b()'", "'%b()'", "'(a)(b)?'", "'l+'", "'[a-c]+'", "'%u%l*'", "'o.'", "'$'", "'^'", "'a?b'", "'(%d+)%%'", "''",
    "'v(%d+)%.(%d+)'", "'%S+'", "'[.]'", "'[%]x]'", "'(.)(.)'", "'%%'", "'-'", "'+'", "'*'", "'%p'", "'(.*):(.*)'",
)  # fmt: skip
DIRECTIVES: Final = (
    "%d", "%i", "%s", "%q", "%x", "%X", "%o", "%c", "%e", "%f", "%g", "%5d", "%-5d|", "%05d", "%+d", "% d", "%5s", "%-5s|", "%.2f",
    "%8.3f", "%08.3f", "%-8.1f|", "%+.1f", "%.3g", "%10.4g", "%.0f", "%.3s", "%5.1s|", "%v", "%5v|", "%t", "%u", "%%", "%.3d", "%#x",
    "%E", "%G", "%.10g", "%.14g", "%U",
)  # fmt: skip


class Expressions:
    """Draws expressions; each method is one subject."""

    def __init__(self, random: Random) -> None:
        """Draw by this generator of random numbers."""
        self._random: Final = random

    def one(self, *choices: str) -> str:
        """Return one of the choices."""
        return self._random.choice(choices)

    def number(self) -> str:
        """Return a literal, sometimes a negative or a large one."""
        kind = self._random.random()
        text = self.one(*(INTEGERS if kind < 0.55 else FRACTIONS if kind < 0.9 else LARGE))
        return f"-{text}" if self._random.random() < 0.2 else text

    def small(self) -> str:
        """Return a position or a count."""
        return self.one("0", "1", "2", "3", "4", "5", "-1", "-2", "-3", "10", "1.5", "2.9", "-1.5", "100")

    def operand(self, depth: int = 2) -> str:
        """Return something that arithmetic takes, for the most part."""
        kind = self._random.random()
        if depth > 0 and kind < 0.4:
            return self.arithmetic(depth - 1)
        if kind < 0.75:
            return (
                self.one("a", "b", "c", "n", "t.x", "t[1]", "#t", "#s")
                if self._random.random() < 0.5
                else self.number()
            )
        if kind < 0.95:
            return f"({self.one(*NUMERIC_TEXTS)})"
        return self.one("(nil)", "('abc')", "(true)", "({})")

    def arithmetic(self, depth: int = 2) -> str:
        """Return sums, products, quotients, remainders, powers."""
        if self._random.random() < 0.12:
            return f"(- {self.operand(depth - 1)})"
        operator = self.one("+", "-", "*", "/", "%", "^", "+", "-", "*", "/", "%")
        right = self.one("2", "3", "0.5", "-1", "-3", "10", "a", "0") if operator == "^" else self.operand(depth - 1)
        return f"({self.operand(depth - 1)} {operator} {right})"

    def text(self) -> str:
        """Return a text, or a number that is taken for one."""
        kind = self._random.random()
        return (
            self.one(*OTHER_TEXTS) if kind < 0.75 else self.one(*NUMERIC_TEXTS) if kind < 0.9 else f"({self.number()})"
        )

    def concatenation(self) -> str:
        """Return ``..`` over texts and numbers."""
        parts = [self._part() for _ in range(self._random.randint(2, 4))]
        return " .. ".join(parts)

    def _part(self) -> str:
        kind = self._random.random()
        if kind < 0.35:
            return self.text()
        if kind < 0.9:
            return self.one(f"({self.number()})", self.arithmetic(1), "a", "b", "n", "t.x", "#t", "'/'")
        return self.one("(nil)", "(true)", "({})", "''")

    def comparison(self) -> str:
        """Return comparisons, also combined by ``and``, ``or`` and ``not``."""
        operator = self.one("==", "~=", "<", ">", "<=", ">=")
        kind = self._random.random()
        if kind < 0.5:
            left, right = self.operand(1), self.operand(1)
        elif kind < 0.8:
            left, right = self.text(), self.text()
        else:
            left, right = self.one(*ANYTHING, "1", "'1'"), self.one(*ANYTHING, "1", "'1'")
        found = f"({left} {operator} {right})"
        return found if kind < 0.7 else f"{self.one('not ', '')}{found} {self.one('and', 'or')} {self.operand(1)}"

    def mathematics(self) -> str:
        """Return a call of ``math``."""
        name = self.one(
            "abs", "ceil", "floor", "max", "min", "fmod", "mod", "sqrt", "pow", "modf", "ldexp", "frexp", "deg", "rad", "log10",
            "max", "min", "floor", "ceil", "huge", "exp", "log", "pi",
        )  # fmt: skip
        if name in ("huge", "pi"):
            return f"math.{name} {self.one('* 1', '- 1', '/ 2', '> 1e308')}"
        if name in ("exp", "log"):
            # C and Go may differ in the last digit.
            return f"string.format('%.10g', math.{name}({self.one('1', '2', '10', '0.5', '100', '0')}))"
        if name == "log10":
            return f"string.format('%.12g', math.log10({self.one('1', '2', '10', '1000', '1e15', '0.001')}))"
        if name == "pow":
            return f"math.pow({self.operand(0)}, {self.one('2', '3', '-1', '0', '10', '0.5')})"
        if name == "ldexp":
            return f"math.ldexp({self.number()}, {self.one('1', '2', '-3', '10', '0')})"
        count = {"max": self._random.randint(0, 4), "min": self._random.randint(1, 4), "fmod": 2, "mod": 2}.get(name, 1)
        return f"math.{name}({', '.join(self.operand(1) for _ in range(count))})"

    def strings(self) -> str:  # noqa: PLR0911 - one for each function
        """Return a call of ``string``."""
        s = self.text()
        name = self.one(
            "sub",
            "byte",
            "find",
            "match",
            "rep",
            "len",
            "lower",
            "upper",
            "reverse",
            "char",
            "gsub",
            "format",
            "find",
            "sub",
        )
        if name == "format":
            return self.formatting()
        if name == "sub":
            return self.one(f"string.sub({s}, {self.small()}, {self.small()})", f"({s}):sub({self.small()})")
        if name == "byte":
            return self.one(
                f"string.byte({s}, {self.small()})",
                f"string.byte({s}, {self.small()}, {self.small()})",
                f"string.byte({s})",
            )
        if name == "find":
            rest = self.one("", "", f", {self.one('1', '2', '3', '-2')}", ", 1, true")
            return f"string.find({s}, {self.one(*PATTERNS)}{rest})"
        if name == "match":
            return f"(string.match({s}, {self.one(*PATTERNS)}{self.one('', '', ', 2')}))"
        if name == "rep":
            return f"string.rep({s}, {self.one('0', '1', '3', '-1', '2.7')})"
        if name == "char":
            return f"string.char({self.one('65', '97, 98', '48.9', '', '300, 65', '321')})"
        if name == "gsub":
            by = self.one(
                "'<%0>'",
                "'%1'",
                "''",
                "'x'",
                "{a = 'A', b = false, x = 1}",
                "string.upper",
                "function(x) return #x end",
                "'%%'",
            )
            return f"string.gsub({s}, {self.one(*PATTERNS)}, {by}{self.one('', '', ', 1', ', 2')})"
        return f"string.{name}({s})"

    def formatting(self) -> str:
        """Return a call of ``string.format``."""
        directives = [self.one(*DIRECTIVES) for _ in range(self._random.randint(1, 3))]
        values = [self._formatted() for _ in range(len(directives) + self._random.choice((0, 0, 0, -1, 1)))]
        return f"string.format({', '.join((repr(' '.join(directives)), *values))})"

    def _formatted(self) -> str:
        kind = self._random.random()
        if kind < 0.6:
            return self.number() if kind < 0.45 else self.arithmetic(1)
        return self.text() if kind < 0.95 else self.one("true", "nil", "false")

    def conversion(self) -> str:
        """Return calls of ``tostring`` and ``tonumber``."""
        kind = self._random.random()
        if kind < 0.4:
            return f"tostring({self.one(self.arithmetic(2), self.text(), *SCALARS)})"
        if kind < 0.8:
            return f"tonumber({self.one(self.text(), self.text(), self.number(), *NUMERIC_TEXTS, *ANYTHING)})"
        text = self.one("'ff'", *NUMERIC_TEXTS)
        return f"tonumber({text}, {self.one('10', '16', '8', '2', '36')})"

    def selection(self) -> str:
        """Return calls of ``select``, ``unpack``, ``type``, ``next``, ``assert``."""
        position = self.one("1", "2", "-1", "'#'", "5")
        return self.one(
            f"select({position}, 'a', nil, 3)",
            f"unpack({{1, 2, 3}}, {self.small()}, {self.small()})",
            f"unpack({{{self.number()}, {self.text()}}})",
            f"type({self.one(*ANYTHING, self.number(), self.text())})",
            "next({})", "next({5})", "next({x = 1})", "assert(1, 2)", "assert(false)", "assert(nil, 'm')", "pcall(error, {})",
        )  # fmt: skip

    def subjects(self) -> dict[str, Callable[[], str]]:
        """Return the methods by subject."""
        return {
            "arithmetic": lambda: self.arithmetic(3), "concatenation": self.concatenation, "comparison": self.comparison,
            "math": self.mathematics, "string": self.strings, "format": self.formatting, "conversion": self.conversion,
            "selection": self.selection,
        }  # fmt: skip
