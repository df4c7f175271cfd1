"""The results of all parts, and the page that shows them."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import BENCHMARKS
from benchmarks.harness.machine import count_changes
from benchmarks.harness.section import Section
from benchmarks.harness.tables import bullets, table

RESULTS = BENCHMARKS / "results.json"
PAGE = BENCHMARKS / "RESULTS.md"

MEASURED = ("app",)
"""The paths that a part measures if its module has no constant of this name."""

Results = dict[str, Any]
"""``about``: the machine and versions; ``parts``: sections by name, with command, rounds, commit and measured paths."""

_MARK = "†"
_MARKED = f"{_MARK} The measured code has changed since this commit, or the repository does not have the commit."


def read(path: Path = RESULTS) -> Results:
    return json.loads(path.read_text()) if path.exists() else {"about": {}, "parts": {}}


def record(results: Results, name: str, section: Section, measured: Mapping[str, Any]) -> None:
    """Replace the former results of a part."""
    plots = [os.path.relpath(plot, BENCHMARKS) for plot in section.plots]
    results["parts"][name] = {**section._asdict(), "plots": plots, "measured": measured}


def write(results: Results, order: Sequence[str]) -> None:
    """Write the results and the page."""
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    parts = {name: results["parts"][name] for name in order if name in results["parts"]}
    PAGE.write_text("\n\n".join(_page(results["about"], parts)) + "\n")


def _page(about: Mapping[str, str], parts: Mapping[str, Any]) -> Iterable[str]:
    yield "# Results"
    yield (
        'Written by `make bench`, a part alone by `make bench ARGS="--only NAME"`; the figures themselves are in '
        "[results.json](results.json). [peers](peers/README.md) describes the peers."
    )  # fmt: skip
    yield bullets(about)
    if goals := [(goal, name) for name, part in parts.items() for goal in part["figures"].get("goals", ())]:
        yield "## Goals"
        commits = {name: _commit(part["measured"]) for name, part in parts.items()}
        lines = [
            [
                goal["goal"], goal["wanted"], goal["found"], "yes" if goal["met"] else "**no**",
                f"[{name}](#{_anchor(parts[name])})", commits[name],
            ]
            for goal, name in goals
        ]  # fmt: skip
        yield table(["goal", "wanted", "found", "met", "part", "commit"], lines, words=6)
        if any(_MARK in commit for commit in commits.values()):
            yield _MARKED
    for part in parts.values():
        yield from _part(part)


def _part(part: Mapping[str, Any]) -> Iterable[str]:
    yield f"## {part['title']}"
    yield part["text"]
    for plot in part["plots"]:
        yield f"![{Path(plot).stem}]({plot})"
    measured = part["measured"]
    yield (
        f"`{measured['command']}`: {measured['rounds']} rounds of {measured['seconds']:g} s, commit "
        f"{_commit(measured)}, {measured['when']}; took {measured['took']:.0f} s."
    )


def _commit(measured: Mapping[str, Any]) -> str:
    """Return the commit of a measurement, with a mark if it is older than the measured code."""
    changes = count_changes(measured["commit"], measured.get("paths", MEASURED))
    return measured["commit"] if changes == 0 else f"{measured['commit']} {_MARK}"


def _anchor(part: Mapping[str, Any]) -> str:
    """Return the anchor that GitHub gives a heading."""
    kept = (letter for letter in part["title"].lower() if letter.isalnum() or letter in " -_")
    return "".join(kept).replace(" ", "-")
