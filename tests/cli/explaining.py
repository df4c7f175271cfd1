"""Runs ``fleethook explain``, and builds its manifests."""

import json
from typing import Any

from tests.cli.commands import invoke
from tests.engines.dispatch.builders import binding, configuration, export
from tests.serving import EXAMPLES

EXAMPLE = ("--request", str(EXAMPLES / "kcp-widgets" / "testdata" / "widget.yaml"), "-f", str(EXAMPLES))


def explain(*arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error."""
    result = invoke(["explain", *arguments], stdin=stdin)
    return result.exit_code, result.stdout, result.stderr


def explain_as_json(*arguments: str, stdin: str | None = None, code: int = 0) -> dict[str, Any]:
    """Return the explanation of the only object."""
    found, out, err = explain(*arguments, "--output", "json", stdin=stdin)
    assert (found, err) == (code, "")
    explanation: dict[str, Any] = json.loads(out)
    return explanation


def provide_webhooks(*webhooks: dict[str, Any], phase: str = "validating") -> list[dict[str, Any]]:
    """Return manifests in which cluster c binds widgets of cluster p, whose webhooks are given."""
    return [
        binding("c", "p", "widgets.example.org"),
        export("p", "widgets.example.org"),
        configuration("p", phase, *webhooks),
    ]
