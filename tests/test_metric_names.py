"""Each metric is defined once, and documented: in the source, and in the registries of every kind of process."""

import ast
import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.core import Metric

from docsite.reference.metrics import collect_server_registry, make_controller_registry, name_samples

ROOT = Path(__file__).parents[1]
NAME = re.compile(r"fleethook_[a-z_]+")
BRACES = re.compile(r"(fleethook_\w*)\{((?:\w+,)+\w+)\}_total")


def definitions(tree: ast.AST) -> Iterator[str]:
    """Yield the metric names that calls have as their first argument; a name put together ends in a star."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and NAME.fullmatch(first.value):
            yield first.value
        elif isinstance(first, ast.JoinedStr) and ast.unparse(first)[2:].startswith("fleethook_"):
            yield f"{ast.unparse(first)}*"


@pytest.fixture(scope="module")
def families() -> dict[str, list[Metric]]:
    """The metric families by kind of process."""
    server = asyncio.run(collect_server_registry(ROOT / "examples"))
    return {"server": list(server.collect()), "crds controller": list(make_controller_registry().collect())}


def test_the_source_defines_each_name_once() -> None:
    places = defaultdict(list)
    for path in sorted((ROOT / "app").rglob("*.py")):
        for name in definitions(ast.parse(path.read_text(encoding="utf-8"))):
            places[name].append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1 or name.endswith("*")} == {}
    assert places["fleethook_leader"] == ["app/fleethook/server/metrics.py"]


def test_no_process_has_a_name_twice(families: dict[str, list[Metric]]) -> None:
    for process, found in families.items():
        counts = Counter(family.name for family in found)
        assert [name for name, count in counts.items() if count > 1] == [], process


def test_a_name_in_several_processes_has_one_meaning(families: dict[str, list[Metric]]) -> None:
    meanings = defaultdict(set)
    for found in families.values():
        for family in found:
            meanings[family.name].add((family.type, family.documentation))
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}
    assert "fleethook_leader" in meanings


def test_every_metric_is_documented(families: dict[str, list[Metric]]) -> None:
    named = set(NAME.findall((ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")))
    wanted = {name_samples(family) for found in families.values() for family in found}
    assert wanted - named == set()


TEXTS = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "charts" / "fleethook").rglob("*.md")),
    *sorted((ROOT / "charts" / "fleethook" / "monitoring").iterdir()),
)
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("", "_bucket", "_count", "_sum")}


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_named_metric_exists(families: dict[str, list[Metric]], path: Path) -> None:
    existing = {
        f"{family.name}{suffix}"
        for found in families.values()
        for family in found
        for suffix in SUFFIXES.get(family.type, ())
    }
    text = path.read_text(encoding="utf-8")
    named = set(NAME.findall(BRACES.sub("", text)))
    named |= {f"{start}{part}_total" for start, parts in BRACES.findall(text) for part in parts.split(",")}
    assert named - existing == set()


def test_the_texts_name_metrics() -> None:
    counted = {path.name: len(NAME.findall(path.read_text(encoding="utf-8"))) for path in TEXTS}
    assert all(counted[name] > 20 for name in ("rules.yaml", "dashboard.json"))
