"""Runs ``fleethook convert``, and builds its manifests."""

from typing import Any

import yaml

from tests.builders import node_pool
from tests.cli.commands import Result, invoke
from tests.serving import EXAMPLES

STORIES = EXAMPLES / "yurtappoverrider"
NODE_POOLS = ("-f", str(EXAMPLES / "nodepools.yaml"))


def convert(*arguments: str, stdin: str = "") -> Result:
    """Run the command."""
    return invoke(["convert", *arguments], stdin=stdin)


def read_levels(result: Result) -> list[str]:
    """Return the levels of the report on standard error."""
    return [line.split(": ")[1] for line in result.stderr.splitlines() if not line.startswith("fleethook: ")]


def dump_manifests(*objects: dict[str, Any]) -> str:
    """Return objects and two NodePools as YAML."""
    return yaml.safe_dump_all([*objects, node_pool("hangzhou"), node_pool("beijing")])
