"""Runs ``fleethook convert``, and builds its manifests."""

import subprocess
from typing import Any

import yaml

from tests.builders import node_pool
from tests.cli.commands import run_command
from tests.serving import EXAMPLES

STORIES = EXAMPLES / "yurtappoverrider"
NODE_POOLS = ("-f", str(EXAMPLES / "nodepools.yaml"))


def convert(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the command."""
    return run_command("convert", *arguments, stdin=stdin)


def read_levels(result: "subprocess.CompletedProcess[str]") -> list[str]:
    """Return the levels of the report on standard error."""
    return [line.split(": ")[1] for line in result.stderr.splitlines() if not line.startswith("fleethook: ")]


def dump_manifests(*objects: dict[str, Any]) -> str:
    """Return objects and two NodePools as YAML."""
    return yaml.safe_dump_all([*objects, node_pool("hangzhou"), node_pool("beijing")])
