"""Conversions of one subject with its overriders, and their results."""

import re
from typing import Any

from fleethook.engines.overrider.convert.conversion import (
    Converted,
    convert,
    merge_remarks,
)
from fleethook.engines.overrider.convert.remarks import Remark
from tests.builders import (
    node_pool,
    patch,
    pool,
    store_of,
    yurt_app_set,
)
from tests.serving import ROOT

SPEC = "/spec/template/spec"
POOLS = (node_pool("hangzhou", {"region": "east"}), node_pool("beijing"))
EVERY: dict[str, Any] = {"nodepoolSelector": {}}
LABEL = "apps.openyurt.io/nodepool"


def in_pool(name: str, *further: dict[str, Any]) -> dict[str, Any]:
    own = {"key": LABEL, "operator": "In", "values": [name]}
    return {"nodeSelectorTerm": {"matchExpressions": [own, *further]}}


PLACED = [pool("hangzhou", **in_pool("hangzhou")), pool("beijing", **in_pool("beijing"))]


def app_set(*, pools: Any = None, **spec: Any) -> dict[str, Any]:
    return yurt_app_set(pools=PLACED if pools is None else pools, **spec)


def convert_one(subject: dict[str, Any], *objects: dict[str, Any], pools: Any = POOLS) -> Converted:
    (made,) = convert([subject], store_of(subject, *objects, *pools))
    return made


def tweaks_of(made: Converted) -> list[dict[str, Any]]:
    """Return the tweaks without the first one, which sets the replicas of the topology."""
    assert made.document is not None, made.remarks
    first, *others = made.document["spec"]["workload"]["workloadTweaks"]
    assert first == {**EVERY, "tweaks": {"replicas": 2}}
    return others


def report(made: Converted) -> list[tuple[str, str, str, tuple[str, ...], str]]:
    return [(one.level, one.code, one.field, one.pools, one.path) for one in merge_remarks(made.remarks)]


def remark(made: Converted, code: str) -> Remark:
    (found,) = [one for one in merge_remarks(made.remarks) if one.code == code]
    return found


def make_patch(operation: str, path: str, *value: Any) -> dict[str, Any]:
    return patch(operation, path, *value)


def read_documented_codes() -> dict[str, tuple[str, ...]]:
    """Return the levels of each code in the table of docs/convert.md."""
    section = (
        (ROOT / "docs" / "convert.md")
        .read_text(encoding="utf-8")
        .partition("\n## The report\n")[2]
        .partition("\n## ")[0]
    )
    rows = re.findall(r"^\| `([a-z-]+)` \| ([a-z, ]+?) *\|", section, re.MULTILINE)
    return {code: tuple(levels.split(", ")) for code, levels in rows}
