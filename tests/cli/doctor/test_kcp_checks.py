"""The findings about workspaces that consume an APIExport; `tests.cli.serve.test_serve_kcp_export` has the requests."""

from typing import Any

import pytest

from fleethook.cli.doctor.kcp_checks import judge_consumers
from tests.kcp_export import make_binding

REFUSED = "Rejected"
ADMINISTRATOR = "an administrator of the workspace has to accept the claims in its APIBinding"
UNINSTALL = "start the server again, or run `fleethook uninstall --kcp-export guard`"


def configuration(cluster: str, policy: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"kcp.io/cluster": cluster}}, "webhooks": [{"failurePolicy": policy}]}


@pytest.mark.parametrize(
    ("written", "stopped", "expected"),
    [
        ([], "", ["error workspaces root:a", f"error workspaces root:b {ADMINISTRATOR}", "note workspaces rules"]),
        ([configuration("a", "Ignore")], "", [f"error workspaces root:b {ADMINISTRATOR}", "ok workspaces rules"]),
        ([configuration("a", "Fail")], "", ["note outage without", "error workspaces", "ok workspaces rules"]),
        (
            [configuration("a", "Fail")],
            "it ended",
            [f"error outage the {UNINSTALL}", "error workspaces", "ok workspaces"],
        ),
        ([configuration("a", "Ignore")], "it ended", ["error outage the", "error workspaces", "ok workspaces rules"]),
    ],
)
def test_an_outage_precedes_uncovered_workspaces(written: list[Any], stopped: str, expected: list[str]) -> None:
    bindings = [make_binding("a"), make_binding("b", validatingwebhookconfigurations=REFUSED)]
    found = [*judge_consumers("guard", bindings, written, stopped=stopped)]
    lines = [f"{one.level} {one.check} {one.text.split()[0]} {one.remedy}".strip() for one in found]
    assert len(lines) == len(expected), lines
    for line, start in zip(lines, expected, strict=True):
        assert line.startswith(start), lines
    assert ("it ended" in found[0].text) == bool(stopped)
