"""Renders a template within the frame: navigation, freshness of the data, equivalent command, long lists, YAML."""

import functools
import re
import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import yaml
from fastapi import Depends
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from fleethook.cluster.conditions_and_events import parse_time
from fleethook.cluster.manifests.yaml_decoding_and_lines import compose
from fleethook.cluster.manifests.yaml_scalars import NoAliasDumper, yaml_text
from fleethook.cluster.partial_and_stale_objects import PartState
from fleethook.console.context import ConsoleContext, Section, engine_pages
from fleethook.engine import installed_engines
from fleethook.model.formats.text import counted
from fleethook.model.json import JSON

T = TypeVar("T")


class Paging(NamedTuple):
    """One page of a sequence.

    Attributes:
        page: The page, counted from 1; not more than `pages`.
        pages: The number of pages, at least 1.
        total: The number of elements on all pages.
        start: The position of the first element of the page.
    """

    page: int
    pages: int
    total: int
    start: int


def paginate(total: int, page: int, size: int) -> Paging:
    """Return the page with a number, or the nearest existing page."""
    pages = max(1, -(-total // size))
    current = min(max(1, page), pages)
    return Paging(current, pages, total, (current - 1) * size)


def take_page(elements: Sequence[T], page: int, size: int) -> tuple[Sequence[T], Paging]:
    """Return the elements of a page, or of the nearest existing one, with that page."""
    paging = paginate(len(elements), page, size)
    return elements[paging.start : paging.start + size], paging


class Freshness(NamedTuple):
    """The age of the data.

    Attributes:
        age: Seconds since the oldest part was known to be current, None if nothing has been read.
        waiting: The parts that were never read.
        missing: A line for each part that cannot be read now, and was never read.
        problems: A line for each other part that cannot be read now.
    """

    age: float | None
    waiting: tuple[str, ...]
    missing: tuple[str, ...]
    problems: tuple[str, ...]


def summarize_parts(parts: Sequence[PartState]) -> Freshness:
    """Return the age of the oldest part and all problems."""
    ages = [part.age for part in parts if part.age is not None]
    return Freshness(
        max(ages, default=None),
        tuple(part.name for part in parts if not part.synced and part.needed),
        tuple(f"{part.name}: {part.detail}" for part in parts if part.failing and part.age is None),
        tuple(f"{part.name}: {part.detail}" for part in parts if part.failing and part.age is not None),
    )


def describe_age(seconds: float | None) -> str:
    """Return an age as text: ``5 s``, ``3 min``, ``2 h``, ``4 d``; ``never`` for None."""
    if seconds is None:
        return "never"
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def show_time(value: object, now: datetime) -> Markup:
    """Return a time as HTML: in UTC to the minute, then its age; the exact time is the title.

    Args:
        value: As `parse_time` takes it; other texts are shown as they are.
        now: The time of the page.
    """
    time = parse_time(value)
    if time is None:
        return escape(value)
    seconds = (now - time).total_seconds()
    age = f"{describe_age(seconds)} ago" if seconds >= 0 else f"in {describe_age(-seconds)}"
    exact = time.isoformat().replace("+00:00", "Z")
    text = Markup('<time datetime="{0}" title="{0}">{1} UTC</time> <span class="muted">({2})</span>')
    return text.format(exact, f"{time:%Y-%m-%d %H:%M}", age)


def make_breakable(text: str) -> Markup:
    """Return a path, a URL or a name as HTML that a narrow line breaks after its separators only."""
    return Markup("<wbr>").join(re.split(r"(?<=[./:_])(?=\w)", text))


def _load_packages() -> Iterator[PackageLoader]:
    """Yield a loader for the templates of the frame, and one for the templates of each engine."""
    yield PackageLoader("fleethook.console")
    modules = (engine.page.partition(":")[0] for engine in installed_engines().values())
    for package in (module.rpartition(".")[0] for module in modules if module):
        if (files(package) / "templates").is_dir():
            yield PackageLoader(package)


_environment: Final = Environment(
    loader=ChoiceLoader(list(_load_packages())),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters.update(age=describe_age, breakable=make_breakable, time=show_time, counted=counted)


@functools.cache
def list_sections() -> tuple[Section, ...]:
    """Return the sections in the order of the navigation."""
    reviews = Section("/reviews", "Reviews", lambda context: context.reviews is not None)
    return Section("/", "Overview"), *(page.section for page in engine_pages()), reviews


def divide_sections(context: ConsoleContext) -> tuple[tuple[Section, ...], tuple[Section, ...]]:
    """Return the sections that are used, and the others. With an empty source, all are shown."""
    sections = list_sections()
    used = tuple(section for section in sections if section.is_used(context))
    return (used, tuple(section for section in sections if section not in used)) if len(used) > 1 else (sections, ())


def find_section(path: str) -> Section | None:
    """Return the section of a path, None for a path of the frame such as ``/static/…``."""
    first = "/" + path.lstrip("/").partition("/")[0]
    return next((section for section in list_sections() if section.path == first), None)


SAME: Final = "The same on the command line"


class Frame(NamedTuple):
    """The part of a page that every page has.

    Attributes:
        sections: The entries of the navigation.
        others: Those of sections that the source has nothing for.
        section: The current one, None for pages without an entry.
        freshness: The age and the problems of the data.
        command: The command that prints the same, ``""`` if there is none.
        command_title: The label of the command.
        now: The time of the page.
    """

    sections: tuple[Section, ...]
    others: tuple[Section, ...]
    section: Section | None
    freshness: Freshness
    command: str
    command_title: str
    now: datetime


def load_templates() -> None:
    """Compile all templates. Otherwise the first request of each page takes 40 ms longer."""
    for name in _environment.list_templates():
        _environment.get_template(name)


def find_context(request: Request) -> ConsoleContext:
    """Return the context of the console that answers a request."""
    context: ConsoleContext = request.app.state.context
    return context


Context = Annotated[ConsoleContext, Depends(find_context)]
"""The context, as a parameter of a page's function."""


def render(
    request: Request,
    template: str,
    *,
    command: str = "",
    command_title: str = SAME,
    status: int = 200,
    **values: Any,
) -> HTMLResponse:
    """Return a page.

    Args:
        request: The request.
        template: The path of the template below ``templates/``.
        command: The command that prints the same.
        command_title: The label of a command that prints more or less than the page shows.
        status: The HTTP status.
        values: The variables of the template, besides ``frame`` (`Frame`).
    """
    context = find_context(request)
    frame = Frame(
        *divide_sections(context),
        find_section(request.url.path),
        summarize_parts(list(context.parts())),
        command,
        command_title,
        context.clock(),
    )
    text = _environment.get_template(template).render(frame=frame, **values)
    return HTMLResponse(text, status_code=status)


def build_fill_command(context: ConsoleContext, resources: str) -> str:
    """Return the command that brings objects to an empty page.

    Args:
        context: The source of the objects.
        resources: Plurals, as kubectl takes them: ``yurtappsets,yurtappdaemons``.
    """
    given = shlex.split(context.command_source)
    if "-f" not in given:
        return context.kubectl("apply", "--filename", "FILE")
    place = Path(given[given.index("-f") + 1])
    file = place if place.suffix else place / "objects.yaml"
    listed = shlex.join(["kubectl", "get", resources, "--all-namespaces", "--output", "yaml"])
    return f"{listed} {'>>' if place.suffix else '>'} {shlex.quote(str(file))}"


# PyYAML wraps long scalars at this width by default; a diff needs a line for each member.
_WIDTH: Final = 1 << 30


class YamlLine(NamedTuple):
    """One line of a YAML text.

    Attributes:
        text: The line without its end.
        path: The tokens of a JSON pointer to the innermost member or element that begins in the line or before it.
    """

    text: str
    path: tuple[str, ...]


def dump_yaml(value: JSON) -> str:
    """Return a value as YAML. If it has control or bidirectional characters, characters beyond ASCII are escaped."""
    return yaml_text(value, dumper=NoAliasDumper, width=_WIDTH)


def format_value(value: JSON) -> str:
    """Return a value as YAML without the marks around a document."""
    return dump_yaml(value).removesuffix("...\n").rstrip("\n")


def list_lines(value: JSON) -> list[YamlLine]:
    """Return the lines of a value as YAML, each with its path."""
    text = format_value(value)
    lines = text.split("\n")
    paths: list[tuple[str, ...]] = [()] * len(lines)
    for node in compose(text):
        _note_paths(node, (), paths)
    return [YamlLine(line, path) for line, path in zip(lines, paths, strict=True)]


def _note_paths(node: yaml.Node, path: tuple[str, ...], paths: list[tuple[str, ...]]) -> None:
    """Write the path of a node to its lines; inner nodes overwrite it."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            _note(key, value, (*path, str(key.value)), paths)
    elif isinstance(node, yaml.SequenceNode):
        for position, element in enumerate(node.value):
            _note(element, element, (*path, str(position)), paths)


def _note(first: yaml.Node, value: yaml.Node, path: tuple[str, ...], paths: list[tuple[str, ...]]) -> None:
    last = value.end_mark.line if value.end_mark.column else value.end_mark.line - 1
    for number in range(first.start_mark.line, min(max(last, first.start_mark.line), len(paths) - 1) + 1):
        paths[number] = path
    _note_paths(value, path, paths)
