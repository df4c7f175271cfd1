"""Manifests whose lines are all of the few kinds that controller-gen writes, read without a parser.

These are: two spaces for a level, a dash right below the letters of its key, one key and at most one value in a line,
values plain, in quotes, ``{}``, ``[]`` or text under ``|-``. One regular expression knows a line, once for all that
read the same; which line may follow which is a matter of columns. Everything else is for a parser: it may be YAML, but
it is none of this. What is told here a parser must tell as well; tests hold that with manifests changed at random.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

_ASCII: Final = bytes(range(0x20, 0x7F)) + b"\n"
_MOST_LINES: Final = 50_000  # all are in memory at once, 10 MiB or so; the longest CRDs in use have 20,000
_MOST_COLUMN: Final = 96  # a mapping and a list for every two columns: half of what a parser is asked to take
_MOST_KNOWN: Final = 10_000  # lines of a release that are different from each other: 3,000
_MOST_LENGTH: Final = 1000  # of a line that is kept; what is longer is seldom there twice

# Plain: `: ` would make it a key, ` #` a comment. What it begins with here begins nothing else.
_LINE: Final = re.compile(
    r"""
    (\ *+) (-\ )?+ (?: ([A-Za-z$_][A-Za-z0-9$_./-]*+): (?: $ | \  ) )?+
    (?: (?P<plain> [A-Za-z0-9./^($_] [^:\#]*+ (?: (?: :(?=[^\ ]) | (?<!\ )\# ) [^:\#]*+ )*+ )
      | (?P<opening> (?<=:) )
      | (?P<text> \|- )
      | (?P<whole> \{\} | \[\] | '(?> [^']+ | '' )*+' | "(?> [^"\\]+ | \\["\\nrt] )*+" )
      | (?P<quoted> '(?> [^']+ | '' )*+ )
    ) \Z
    """,
    re.VERBOSE,
)
_MOST_KEY: Final = 100  # characters; libyaml takes a thousand
_SIMPLE: Final = re.compile(r"[A-Za-z0-9./-]+")

Path = tuple[str, ...]


class _Line(NamedTuple):
    column: int
    dash: bool
    inner: int
    """The column of the mapping that the line has a key of, else that of the list that it has an item of."""
    kind: str
    """The group of the value; ``more`` for a plain value that has neither dash nor key, and goes on with one."""
    key: str
    """``""`` behind a dash: what is in a list is not looked for."""


class KnownLines(dict[str, _Line]):
    """What is known of the lines that have been looked at."""

    def __missing__(self, text: str) -> _Line:
        """Look at a line; raises OtherLineError for one that is of no kind."""
        line = _look(text)
        if len(self) < _MOST_KNOWN and len(text) <= _MOST_LENGTH:
            self[text] = line
        return line


class OtherLineError(Exception):
    """A line of another kind, or one that may not stand where it does."""


def _look(text: str) -> _Line:
    match = _LINE.match(text)
    if match is None:
        raise OtherLineError
    indent, dash, key = match.group(1, 2, 3)
    column, kind = len(indent), match.lastgroup or ""
    if not dash and not key:
        if kind != "plain":
            raise OtherLineError
        kind = "more"
    if column % 2 or column > _MOST_COLUMN or len(key or "") > _MOST_KEY:
        raise OtherLineError
    return _Line(column, dash is not None, column + 2 if dash and key else column, kind, "" if dash else key or "")


def read_lines(text: str, wanted: Collection[Path], known: KnownLines) -> dict[Path, str] | None:
    """Return the scalars at paths of one or two keys in a manifest of one document, None if it is one for a parser.

    Arguments:
        text: The manifest.
        wanted: The paths.
        known: Grows with lines of this manifest, for the next one.
    """
    # Nothing that Python calls printable breaks a line or is refused by YAML.
    if not text.endswith("\n") or text.count("\n") > _MOST_LINES or not _is_printable(text):
        return None
    try:
        return _walk(iter(text.removeprefix("---\n").removesuffix("\n").split("\n")), wanted, known)
    except OtherLineError:
        return None


def _is_printable(text: str) -> bool:
    # Most of it is ASCII, which is soon taken out; what is left is not.
    return text.encode().translate(None, _ASCII).decode().isprintable()


def _walk(lines: Iterator[str], wanted: Collection[Path], known: KnownLines) -> dict[Path, str]:
    found: dict[Path, str] = {}
    # A mapping is open at every even column up to `here`, for no line goes in by more than two; at some a list is too.
    lists = [False] * (_MOST_COLUMN + 3)
    here, before, parent, margin = -2, "opening", "", ""
    for text in lines:
        if margin and (not text or text.startswith(margin)):
            continue
        margin = ""
        column, dash, inner, kind, key = known[text]
        if kind == "more":
            # Of what stands in the first two columns nothing goes on, so that a scalar found there is all of it.
            fits = before == "plain" and 2 < here < column
        elif before == "opening":
            fits = column == (here if dash else here + 2)
        else:
            fits = column <= here and (not dash or lists[column])
        if not fits:
            raise OtherLineError
        if kind == "more":
            continue
        lists[inner] = False
        lists[column] = dash
        here, before = inner, kind
        if column <= 2:
            parent = _note(found, wanted, (parent, key) if column else (key,), text)
        if kind in _FURTHER:
            margin = _FURTHER[kind](lines, here)
    return found


def _note(found: dict[Path, str], wanted: Collection[Path], path: Path, text: str) -> str:
    """Keep the value of a line if it is wanted; returns the key that the next lines are below."""
    if path in wanted:
        value = text.partition(": ")[2]
        # What is there twice, and values that are not what they look like, are the parser's.
        if path in found or not _SIMPLE.fullmatch(value):
            raise OtherLineError
        found[path] = value
    return path[0]


def _margin_of_text(lines: Iterator[str], column: int) -> str:
    """Take the first line of a text, and return what all others begin with that are not empty."""
    first = next(lines, "")
    margin = first[: len(first) - len(first.lstrip(" "))]
    if len(margin) <= column or margin == first:
        raise OtherLineError
    return margin


def _end_of_quoted(lines: Iterator[str], _: int) -> str:
    """Take the lines up to the one that ends with the quote; two quotes are one that is quoted."""
    for line in lines:
        rest = line.replace("''", "")
        if line and not line.startswith(" "):
            break  # where a document may begin
        if "'" in rest:
            if rest.index("'") == len(rest) - 1:
                return ""
            break
    raise OtherLineError


_FURTHER: Final = {"text": _margin_of_text, "quoted": _end_of_quoted}
