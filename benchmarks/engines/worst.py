"""The longest time that one hostile document holds the event loop, per route: in process, in CPU time.

Each document is an ordinary review in which one value is replaced by a long one: a long number, a long text, a deep
nesting, a wide object, equal keys, a list of copies. CPU time of a thread is taken, so that other load does not count.
"""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

Path = tuple[str | int, ...]
MARK = "@@worst@@"


class Base(NamedTuple):
    """An ordinary review of a route."""

    route: str
    name: str
    review: dict[str, Any]


class Held(NamedTuple):
    """A document, and the longest time that it held the event loop beyond the decoding of its body, in ms."""

    route: str
    base: str
    path: str
    growth: str
    size: int
    status: int
    ms: float
    decode_ms: float


def _repeated(unit: str, size: int) -> str:
    return unit * max(1, size // len(unit))


def _members(size: int, *, equal: bool) -> str:
    count = max(1, size // 12)
    return "{" + ",".join(f'"{"k" if equal else f"k{number:07}"}":1' for number in range(count)) + "}"


def _names(size: int, template: str) -> str:
    count = max(1, size // (len(template) + 5))
    return "[" + ",".join(template.replace("#", f"{number:07}") for number in range(count)) + "]"


GROWTHS = {
    "digits": lambda size: f'"{"1" * size}"',
    "decimals": lambda size: f'"0.{"1" * size}"',
    "number": lambda size: "0." + "1" * size,
    "integers": lambda size: f"[{','.join(['1' * 4000] * max(1, size // 4001))}]",
    "letters": lambda size: f'"{"a" * size}"',
    "quotes": lambda size: f'"{_repeated(chr(92) + chr(34), size)}"',
    "controls": lambda size: f'"{_repeated(chr(92) + "u001b", size)}"',
    "slashes": lambda size: f'"{"/" * size}"',
    "tildes": lambda size: f'"/{"~1" * (size // 2)}"',
    "dots": lambda size: f'"{"a." * (size // 2)}"',
    "commas": lambda size: f'"{"a=b," * (size // 4)}"',
    "pools": lambda size: f'"{_repeated("{{nodepool}}", size)}"',
    "open": lambda size: f'"{"{{" * (size // 2)}"',
    "brackets": lambda size: f'"/{"[a=b]" * (size // 5)}"',
    "spaces": lambda size: f'"{" " * size}x"',
    "dollars": lambda size: f'"{"$(" * (size // 2)}"',
    "lists": lambda size: "[" * 900 + "]" * 900,
    "objects": lambda size: '{"a":' * 900 + "1" + "}" * 900,
    "zeros": lambda size: f"[{','.join('0' * (size // 2))}]",
    "nulls": lambda size: f"[{','.join(['null'] * (size // 5))}]",
    "empties": lambda size: f"[{','.join(['{}'] * (size // 3))}]",
    "named": lambda size: _names(size, '{"name":"n#"}'),
    "equally named": lambda size: _names(size, '{"name":"n"}'),
    "texts": lambda size: _names(size, '"t#"'),
    "wide": lambda size: _members(size, equal=False),
    "equal keys": lambda size: _members(size, equal=True),
}


def documents(base: Base, size: int, *, only: tuple[str, str] | None = None) -> Iterator[tuple[str, str, bytes]]:
    """Yield path, growth and body of each hostile document of a base, or of one path and growth only."""
    for path in _paths(base.review):
        shown = "/" + "/".join(map(str, path))
        if only is not None and shown != only[0]:
            continue
        marked = json.loads(json.dumps(base.review))  # nothing in two places
        parent: Any = marked
        for step in path[:-1]:
            parent = parent[step]
        value = parent[path[-1]]
        parent[path[-1]] = MARK
        text = json.dumps(marked, separators=(",", ":"))
        for growth, grow in GROWTHS.items():
            if only is not None and growth != only[1]:
                continue
            yield shown, growth, text.replace(f'"{MARK}"', grow(size)).encode()
        for growth, grown in _copies(value, size):
            yield shown, growth, text.replace(f'"{MARK}"', grown).encode()


def _copies(value: Any, size: int) -> Iterator[tuple[str, str]]:
    """Yield a list with many copies of its first element, or an object with many of its first member."""
    if isinstance(value, list) and value:
        element = json.dumps(value[0], separators=(",", ":"))
        count = max(1, size // (len(element) + 1))
        yield "copies", f"[{','.join([element] * count)}]"
        if isinstance(value[0], dict) and isinstance(name := value[0].get("name"), str):
            numbered = (element.replace(f'"name":"{name}"', f'"name":"{name}{number}"', 1) for number in range(count))
            yield "numbered copies", f"[{','.join(numbered)}]"
    elif isinstance(value, dict) and value:
        member = json.dumps(next(iter(value.values())), separators=(",", ":"))
        count = max(1, size // (len(member) + 12))
        yield "members", "{" + ",".join(f'"k{number:07}":{member}' for number in range(count)) + "}"


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _paths(member, (*path, name))
    elif isinstance(value, list):
        for position, element in enumerate(value[:1]):
            yield from _paths(element, (*path, position))


class Watched:
    """Measures the longest single step of an event loop, in CPU seconds of its thread."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._run = asyncio.Handle._run  # noqa: SLF001 - the one place through which each step goes

    def __enter__(self) -> "Watched":
        run = self._run

        def timed(handle: asyncio.Handle) -> Any:
            began = time.thread_time()
            try:
                return run(handle)
            finally:
                self.longest = max(self.longest, time.thread_time() - began)

        asyncio.Handle._run = timed  # type: ignore[method-assign]  # noqa: SLF001
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]  # noqa: SLF001


async def hold(app: Any, route: str, body: bytes) -> tuple[int, float]:
    """Return the status of an answer, and the longest step of the event loop in ms."""
    sent: list[Any] = []
    given = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return given.pop() if given else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "path": route, "raw_path": route.encode(),
        "query_string": b"timeout=10s", "root_path": "", "scheme": "https", "server": ("localhost", 443),
        "client": ("127.0.0.1", 1), "headers": [(b"content-type", b"application/json")],
    }  # fmt: skip
    with Watched() as watched:
        await asyncio.create_task(app(scope, receive, send))
    return sent[0]["status"], watched.longest * 1000


def decoding(body: bytes, decoder: msgspec.json.Decoder[Any]) -> float:
    """Return how long decoding a body takes, in ms."""
    began = time.thread_time()
    try:
        decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    return (time.thread_time() - began) * 1000


async def measure(app: Any, bases: Sequence[Base], *, size: int, again: int, kept: int) -> list[Held]:
    """Return the worst documents of each route, longest first.

    Args:
        app: The application.
        bases: Ordinary reviews.
        size: Bytes of a document in the search.
        again: Bytes of a document in the measurement of the worst.
        kept: Documents per route that are measured.
    """
    decoder = msgspec.json.Decoder()
    worst: dict[str, list[Held]] = {}
    for base in bases:
        found = worst.setdefault(base.route, [])
        for path, growth, body in documents(base, size):
            status, ms = await hold(app, base.route, body)
            decode = decoding(body, decoder)
            found.append(Held(base.route, base.name, path, growth, len(body), status, ms - decode, decode))
        found.sort(key=lambda one: one.ms, reverse=True)
        del found[kept * 4 :]
    by_name = {(base.route, base.name): base for base in bases}
    measured = []
    for found in worst.values():
        seen: set[tuple[str, str, str]] = set()
        for one in found:
            key = (one.base, one.path, one.growth)
            if key in seen or len(seen) >= kept:
                continue
            seen.add(key)
            base = by_name[one.route, one.base]
            wanted = (one.path, one.growth)
            body = next(body for path, growth, body in documents(base, again, only=wanted) if growth == one.growth)
            status, ms = await hold(app, one.route, body)
            decode = decoding(body, decoder)
            measured.append(Held(one.route, one.base, one.path, one.growth, len(body), status, ms - decode, decode))
    return sorted(measured, key=lambda one: one.ms, reverse=True)
