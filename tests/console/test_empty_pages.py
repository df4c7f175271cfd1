"""Every page without content says why, with the command that fills it."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.console.pages.reading import get
from tests.console.visits import console_of

PATHS = {
    "/": 2,
    "/overriders": 1,
    "/dispatch": 1,
    "/rules": 1,
    "/crds": 2,
    "/reviews": 1,
}
"""The pages, and the parts of each that are empty."""
EMPTY = re.compile(r'<p class="empty">.+?<code tabindex="0">(.+?)</code>')


async def find_commands(app: Any, path: str) -> list[str]:
    page = await get(app, path)
    return EMPTY.findall(page.source)


@pytest.mark.parametrize(("path", "parts"), PATHS.items())
@pytest.mark.parametrize("source", ["-f examples", "--kubeconfig k --context c"])
async def test_each_empty_part_names_the_command_that_fills_it(
    path: str, parts: int, source: str, tmp_path: Path
) -> None:
    commands = await find_commands(console_of(crd_cache=tmp_path / "none", command_source=source), path)
    assert len(commands) == parts
    assert {shlex.split(one)[0] for one in commands} <= {"fleethook", "kubectl"}


@pytest.mark.parametrize("path", [*PATHS, "/interpreters"])
async def test_no_page_counts_pages_that_do_not_exist(path: str, tmp_path: Path) -> None:
    page = await get(console_of(crd_cache=tmp_path / "none"), path)
    assert "page 1 of 1" not in page.text.lower()


async def test_objects_come_from_a_cluster_to_the_files_of_the_console(tmp_path: Path) -> None:
    listed = "kubectl get yurtappsets,yurtappdaemons,yurtappoverriders,nodepools --all-namespaces --output yaml"
    for source, command in (
        ("-f 'my examples'", f"{listed} &gt; &#39;my examples/objects.yaml&#39;"),
        ("-f now.yaml", f"{listed} &gt;&gt; now.yaml"),
        ("--kubeconfig k --context c --kcp", "kubectl --kubeconfig k --context c apply --filename FILE"),
        ("--in-cluster", "kubectl apply --filename FILE"),
    ):
        assert await find_commands(console_of(command_source=source), "/overriders") == [command]
