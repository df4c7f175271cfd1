"""Functions of strings: CEL's, version 2 of cel-go's ext.Strings, which counts in code points, and regular expressions.

RE2 has the syntax and the linear time of Go's package regexp (k8s.io/apiserver/pkg/cel/library/regex.go, cel-go's
``matches``). Python's module re can take exponential time.
"""

import math
import re
import string
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Final

from fleethook.cel.cost_and_length_limits import spend
from fleethook.cel.library.standard import convert_to_string, format_duration, format_float
from fleethook.cel.values.operators import MAX_DEPTH
from fleethook.cel.values.times import Duration, Timestamp, format_timestamp
from fleethook.cel.values.values_and_overloads import (
    NO_SUCH_OVERLOAD,
    CelType,
    Function,
    Uint,
    get_kind,
    get_type,
    quote,
    quote_cel,
)

_CHARACTERS_PER_ELEMENT: Final = 10


def measure_weight(value: Any) -> int:
    """Count 1 for ``value`` and each value inside it, and 1 for every ten characters of strings and keys.

    Raises:
        ValueError: The value is nested too deeply for functions that are recursive.
    """
    total, depth, level = 0, 0, [value]
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"a value is nested deeper than {MAX_DEPTH} levels")
        total += len(level)
        below: list[Any] = []
        for one in level:
            if isinstance(one, str | bytes):
                total += len(one) // _CHARACTERS_PER_ELEMENT
            elif isinstance(one, list):
                below += one
            elif isinstance(one, dict):
                below += one.keys()
                below += one.values()
        level = below
    return total


_CLAUSE: Final = re.compile(r"%(?:\.([0-9]*))?([\s\S]?)", re.ASCII)
_DEFAULT_PRECISION: Final = 6
# Go's package fmt has the same limit.
_MAX_PRECISION: Final = 1_000_000
_SUPERSCRIPTS: Final = str.maketrans(
    "0123456789-", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b"
)
_NAMED_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_DOUBLES: Final = frozenset({"double", "string"})
_INTEGERS: Final = frozenset({"int", "uint"})

_PRINTABLE: Final = frozenset(
    ("list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null")
)
_STRING_PROBLEM: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps, was given"
)
_HEX_PROBLEM: Final = "only integers, byte buffers, and strings can be formatted as hex, was given"
_CLAUSES: Final = {
    "s": (_PRINTABLE, _STRING_PROBLEM),
    "d": (_INTEGERS, "decimal clause can only be used on integers, was given"),
    "f": (_DOUBLES, "fixed-point clause can only be used on doubles, was given"),
    "e": (_DOUBLES, "scientific clause can only be used on doubles, was given"),
    "b": (_INTEGERS | {"bool"}, "only integers and bools can be formatted as binary, was given"),
    "x": (_INTEGERS | {"string", "bytes"}, _HEX_PROBLEM),
    "X": (_INTEGERS | {"string", "bytes"}, _HEX_PROBLEM),
    "o": (_INTEGERS, "octal clause can only be used on integers, was given"),
}
"""For each clause, the kinds of its arguments, and the error for others without the name of their type."""


def format_list(text: str, arguments: Sequence[Any]) -> str:
    """Return a format with its arguments; raises ValueError."""
    spend(measure_weight(text) + measure_weight(arguments))
    index = count()

    def fill(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        if found[0] == "%":
            raise ValueError("unexpected end of string")
        position = next(index)
        if position >= len(arguments):
            raise ValueError(f"index {position} out of range")
        precision = _DEFAULT_PRECISION if found[1] is None else _read_precision(found[1], is_last=not found[2])
        if found[2] not in _CLAUSES:
            raise ValueError(f'could not parse formatting clause: unrecognized formatting clause "{found[2]}"')
        return _format_clause(found[2], precision, arguments[position])

    return _CLAUSE.sub(fill, text)


def _read_precision(digits: str, *, is_last: bool) -> int:
    problem = ""
    if is_last:
        problem = "could not find end of precision specifier"
    elif not digits:
        problem = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
    elif len(digits) > 7 or int(digits) > _MAX_PRECISION:
        problem = f"the precision exceeds {_MAX_PRECISION}"
    if problem:
        raise ValueError(f"could not parse formatting clause: error while parsing precision: {problem}")
    return int(digits)


def _format_clause(letter: str, precision: int, value: Any) -> str:
    kinds, problem = _CLAUSES[letter]
    if get_kind(type(value)) not in kinds or (letter in "fe" and value not in _NAMED_NUMBERS and type(value) is str):
        raise ValueError(f"error during formatting: {problem} {get_type(value).name}")
    try:
        return str(_FORMATS[letter](value, precision))
    except ValueError as error:
        raise ValueError(f"error during formatting: {error}") from None


def _read_number(value: Any) -> float:
    return _NAMED_NUMBERS[value] if type(value) is str else float(value)


def _format_fixed(value: Any, precision: int) -> str:
    number = _read_number(value)
    if not math.isfinite(number):
        return _name_number(number)
    spend(precision // 10)
    return f"{number or 0.0:,.{precision}f}" if number else f"{0.0:.{precision}f}"


def _name_number(number: float) -> str:
    return "NaN" if math.isnan(number) else "\u221e" if number > 0 else "-\u221e"


def _format_scientific(value: Any, precision: int) -> str:
    number = _read_number(value)
    if not math.isfinite(number):
        return _name_number(number).rjust(precision)
    spend(precision // 10)
    mantissa, _, exponent = f"{number or 0.0:.{_DEFAULT_PRECISION}e}".partition("e")
    sign = "-" if exponent.startswith("-") else ""
    power = f"{sign}{exponent[1:]}".translate(_SUPERSCRIPTS)
    # cel-go writes the precision in the place of a width.
    return f"{mantissa}\u00d710{power}".rjust(precision)


def _format_hex(value: Any, *, upper: bool) -> str:
    if type(value) is str:
        value = value.encode(errors="replace")
    text = value.hex() if type(value) is bytes else f"{value:x}"
    return text.upper() if upper else text


_FORMATS: Final[dict[str, Any]] = {
    "s": lambda value, _: format_value(value),
    "d": lambda value, _: str(int(value)),
    "f": _format_fixed,
    "e": _format_scientific,
    "b": lambda value, _: f"{int(value):b}",
    "x": lambda value, _: _format_hex(value, upper=False),
    "X": lambda value, _: _format_hex(value, upper=True),
    "o": lambda value, _: f"{int(value):o}",
}


def format_value(value: Any) -> str:
    """Return a value as the clause ``%s`` writes it."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_nested, value))}]"
    if isinstance(value, dict):
        return _format_map(value)
    try:
        return convert_to_string(value)
    except ValueError as error:
        raise ValueError(f"could not convert argument {quote(str(error))} to string") from None


def _format_map(entries: dict[Any, Any]) -> str:
    pairs = []
    for key, value in entries.items():
        if type(key) not in (str, bool, int, Uint):
            raise ValueError(f"no formatting function for map key of type {get_type(key).name}")
        pairs.append((_format_nested(key), _format_nested(value)))
    pairs.sort(key=lambda pair: pair[0])
    return "{" + ", ".join(f"{key}:{value}" for key, value in pairs) + "}"


def _format_nested(value: Any) -> str:
    """Return a value inside a list or a map: quoted, and doubles with six digits."""
    match value:
        case Timestamp():
            return f"timestamp({quote(format_timestamp(value))})"
        case Duration():
            return f"duration({quote(format_duration(value))})"
        case float():
            return f"{value:.6f}" if math.isfinite(value) else quote(format_float(value))
        case str():
            return quote(value)
        case bytes():
            return f"b{quote(format_value(value))}"
        case CelType() | list() | dict() | bool() | int() | None:
            return format_value(value)
    raise ValueError(f"no formatting function for {get_type(value).name}")


_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER: Final = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
# Go's unicode.IsSpace. Python's str.strip also removes the separators 0x1c to 0x1f.
_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
# A short string takes the memory of this many list elements.
_WORK_OF_TEXT: Final = 6


def _get_character(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise IndexError(f"index out of range: {position}")
    return text[position : position + 1]


def _cut_substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    for position in (start, end):
        if not 0 <= position <= len(text):
            raise IndexError(f"index out of range: {position}")
    if start > end:
        raise IndexError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        spend(_WORK_OF_TEXT * text.count(separator))
        return text.split(separator, max(-1, limit - 1))
    spend(_WORK_OF_TEXT * len(text))
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    found = text.count(old)
    times = found if limit < 0 else min(found, limit)
    spend((len(text) + max(0, len(new) - len(old)) * times) // _CHARACTERS_PER_ELEMENT)
    return text.replace(old, new, times)


def _join(texts: Sequence[str], separator: str = "") -> str:
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(NO_SUCH_OVERLOAD)
    spend((sum(map(len, texts)) + len(separator) * max(0, len(texts) - 1)) // _CHARACTERS_PER_ELEMENT)
    return separator.join(texts)


def _find_text(text: str, part: str, offset: int = 0) -> int:
    _check_offset(offset)
    if not part:
        return offset
    return text.find(part, offset)


def _find_last_text(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        return text.rfind(part)
    _check_offset(offset)
    if not part:
        return offset
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def _check_offset(offset: int) -> None:
    if offset < 0:
        raise IndexError(f"index out of range: {offset}")


STRING_FUNCTIONS: Final = (
    Function("contains", ("string", "string"), lambda text, part: part in text),
    Function("startsWith", ("string", "string"), str.startswith),
    Function("endsWith", ("string", "string"), str.endswith),
    Function("strings.quote", ("string",), quote_cel),
    Function("charAt", ("string", "int"), _get_character),
    Function("format", ("string", "list"), format_list),
    Function("lowerAscii", ("string",), lambda text: text.translate(_LOWER)),
    Function("upperAscii", ("string",), lambda text: text.translate(_UPPER)),
    Function("trim", ("string",), lambda text: text.strip(_SPACES)),
    Function("split", ("string", "string"), _split),
    Function("split", ("string", "string", "int"), _split),
    Function("substring", ("string", "int"), _cut_substring),
    Function("substring", ("string", "int", "int"), _cut_substring),
    Function("replace", ("string", "string", "string"), _replace),
    Function("replace", ("string", "string", "string", "int"), _replace),
    Function("join", ("list",), _join),
    Function("join", ("list", "string"), _join),
    *(
        Function(name, ("string", "string", *offset), code)
        for name, code in (("indexOf", _find_text), ("lastIndexOf", _find_last_text))
        for offset in ((), ("int",))
    ),
)


# A match takes the memory of this many list elements.
_WORK_OF_MATCH: Final = 6
_MAX_COMPILED: Final = 1_000
# Go: regexp/syntax, ErrorCode.
_PROBLEMS: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}
# A quotation, an escaped character, or \C, which matches a byte in RE2 and is invalid in Go.
_TOKEN: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)


@lru_cache(maxsize=_MAX_COMPILED)
def compile_pattern(pattern: str) -> Any:
    """Return a compiled pattern.

    Raises:
        ValueError: The pattern is invalid in Go.
    """
    import re2  # noqa: PLC0415 - takes 3 MB, and few conditions have regular expressions

    options: Any = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)  # type: ignore[no-untyped-call]
    except re2.error as error:
        raise ValueError(f"error parsing regexp: {_translate(error.args[0].decode(errors='replace'))}") from None
    except UnicodeEncodeError:
        raise ValueError("a text is not valid UTF-8") from None
    if any(token[0] == "\\C" for token in _TOKEN.finditer(pattern)):
        raise ValueError(r"error parsing regexp: invalid escape sequence: `\C`")
    return compiled


def _translate(text: str) -> str:
    """Return Go's text for an error of RE2."""
    problem, colon, part = text.partition(": ")
    return f"{_PROBLEMS.get(problem, problem)}: `{part}`" if colon else _PROBLEMS.get(problem, problem)


def _matches(text: str, pattern: str) -> bool:
    return compile_pattern(pattern).search(text) is not None


def _find(text: str, pattern: str) -> str:
    found = compile_pattern(pattern).search(text)
    return "" if found is None else str(found.group())


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    compiled = compile_pattern(pattern)
    # A pattern can match each character.
    spend(_WORK_OF_MATCH * len(text))
    found: list[str] = []
    for match in _list_matches(compiled, text):
        if 0 <= limit <= len(found):
            break
        found.append(match)
    return found


def _list_matches(compiled: Any, text: str) -> Iterator[str]:
    """Yield the matches that do not overlap. As in Go, skip an empty match directly after another match."""
    former = -1
    for found in compiled.finditer(text):
        start, end = found.span()
        if start == end == former:
            continue
        former = end
        yield str(found.group())


REGEX_FUNCTIONS: Final = (
    Function("matches", ("string", "string"), _matches),
    Function("find", ("string", "string"), _find),
    Function("findAll", ("string", "string"), _find_all),
    Function("findAll", ("string", "string", "int"), _find_all),
)
