"""The engine that dispatches reviews to the webhooks of logical clusters."""

from typing import Final

from fleethook.engine import CommandSpec, Engine

_FOLDER: Final = "fleethook.engines.dispatch"

ENGINE: Final = Engine(
    name="dispatch",
    order=20,
    system="kcp, and webhooks of any cluster",
    server=f"{_FOLDER}.dispatch_server:DispatchServer",
    resources=f"{_FOLDER}.dispatch_server:list_resources",
    indexes=f"{_FOLDER}.schema_owner_and_cluster_paths:INDEXES",
    settings=f"{_FOLDER}.dispatch_settings:DispatchSettings",
    commands={
        "explain": CommandSpec(
            f"{_FOLDER}.commands.explain:explain",
            "List the webhooks that a request is sent to, and the reason for skipping each other one.",
        ),
        "webhook": CommandSpec(
            f"{_FOLDER}.commands.webhook_test:webhook", "Test admission webhooks before they are registered."
        ),
    },
    lint=f"{_FOLDER}.commands.webhook_finding_rows:lint_webhooks",
    page=f"{_FOLDER}.pages.dispatch:PAGE",
)
"""All that the engine contributes."""
