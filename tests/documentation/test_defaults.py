"""The defaults that pages quote are those of the settings and of the chart, and no page names a package of an index."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from fleethook.engines.crds.commands.crds import crds
from fleethook.settings import Settings
from tests.documentation.blocks import list_pages
from tests.serving import ROOT

CODE = re.compile(r"`([^`]+)`")
QUANTITY = re.compile(r"^`?(?P<number>[\d.,]*\d) ?(?P<unit>Ki|Mi|Gi)?B?\b")
FACTORS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
IN_TEXT = re.compile(r"`([a-z_]+)` \((\d[\d,.]*(?: [A-Za-z]+)?)\)")
CHART = ROOT / "charts" / "fleethook"
INSTALL_FROM_INDEX = re.compile(r"(?:pipx?|uv|uvx)\b[^\n]*\s['\"]?fleethook(?:['\"\[=<>~!]|\s|$)")


class Row(NamedTuple):
    """A row of a table: its page, the texts of its header, and its own."""

    page: str
    header: list[str]
    cells: list[str]


def read_rows(page: Path) -> Iterator[Row]:
    header: list[str] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells or not header:
            header = cells
        elif not re.fullmatch(r"[-|: ]+", line):
            yield Row(page.relative_to(ROOT).as_posix(), header, cells)


def read_default(name: str) -> Any:
    return Settings.model_fields[name].get_default(call_default_factory=True)


def quotes(cell: str, default: Any) -> bool:
    """Return whether a cell of a page quotes a default; the units of some settings are in their names."""
    if default is None or default is False or default == []:
        return QUANTITY.match(cell) is None
    if isinstance(default, int | float):
        found = QUANTITY.match(cell)
        number = float(found["number"].replace(",", "")) if found else None
        return number is not None and default in (number, number * FACTORS.get((found and found["unit"]) or "", 1))
    return f"`{default}`" in cell or str(default) == cell


ROWS = [row for page in list_pages() if "docs/reference/" not in str(page) for row in read_rows(page)]


def list_quoted_settings() -> Iterator[tuple[str, str, str]]:
    """Yield the page, the setting and its default as the page has it, in tables and as "`setting` (60 s)" in texts."""
    for page in list_pages():
        for name, quoted in IN_TEXT.findall(page.read_text(encoding="utf-8")):
            if name in Settings.model_fields:
                yield page.relative_to(ROOT).as_posix(), name, quoted
    for row in ROWS:
        if "default" in row.header:
            names = [name for cell in row.cells for name in CODE.findall(cell) if name in Settings.model_fields]
            yield from ((row.page, name, row.cells[row.header.index("default")]) for name in names[:1])
        (named, *_) = CODE.findall(row.header[0]) or [""]
        if named in Settings.model_fields and "(default)" in row.cells[0]:
            yield row.page, named, row.cells[0]


def test_a_quoted_default_is_that_of_the_setting() -> None:
    quoted = list(list_quoted_settings())
    assert [(page, name, cell) for page, name, cell in quoted if not quotes(cell, read_default(name))] == []
    assert {"record_max", "dispatch_open"} <= {name for _, name, _ in quoted}


def test_a_quoted_default_is_that_of_the_option() -> None:
    """The table of docs/crds.md is about ``fleethook crds controller``."""
    controller = crds.get_command(None, "controller")
    assert controller is not None
    options = {flag: one for one in controller.params for flag in one.opts}
    rows = [row for row in ROWS if row.page == "docs/crds.md" and row.header[:2] == ["flag", "default"]]
    wrong = [
        (flag, cell)
        for row in rows
        for flag, cell in zip(CODE.findall(row.cells[0]), row.cells[1].split(", "), strict=True)
        if not quotes(cell, options[flag].default)
    ]
    assert wrong == []
    assert len(rows) > 10


def test_a_quoted_default_is_that_of_the_chart() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    rows = [row for row in ROWS if row.page == "charts/fleethook/README.md" and row.header[0] == "value"]
    wrong, compared = [], 0
    for row in rows:
        paths, defaults = CODE.findall(row.cells[0]), CODE.findall(row.cells[1])
        if len(paths) == len(defaults) and not CODE.sub("", row.cells[1]).strip(" ,"):
            found = [read_value(values, path) for path in paths]
            compared += len(paths)
            wrong += [
                (path, default)
                for path, default, one in zip(paths, defaults, found, strict=True)
                if yaml.safe_load(default) != one
            ]
    assert wrong == []
    assert compared > 50


def read_value(values: Any, path: str) -> Any:
    for name in path.split("."):
        values = values[name]
    return values


def find_installations_from_an_index(text: str) -> list[str]:
    return [found[0].strip() for found in INSTALL_FROM_INDEX.finditer(text)]


def test_no_page_installs_from_an_index() -> None:
    """No index has the package: pages install a clone, or the wheel of `make dist`."""
    found = {page.name: find_installations_from_an_index(page.read_text(encoding="utf-8")) for page in list_pages()}
    assert {name: lines for name, lines in found.items() if lines} == {}
