"""Connects to the API server to apply CRDs to or to compare with."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli import kubeconfig
from app.crds.apply.diff import CRDChange
from app.crds.failures import CRDsError, Exit

if TYPE_CHECKING:
    from app.kube.connection import Connection


def format_changes(changes: Sequence[CRDChange]) -> list[str]:
    """Return differences as lines of text."""
    return [line for change in changes for line in change.format_lines()] or ["no differences"]


def find_kubeconfig(given: Path | None) -> Path:
    """Return the kubeconfig to use, as kubectl finds it; raises CRDsError USAGE for none."""
    try:
        return kubeconfig.find_kubeconfig(given)
    except kubeconfig.KubeconfigError as error:
        hint = "" if given else "; give --kubeconfig FILE"
        raise CRDsError(Exit.USAGE, f"{error}{hint}") from None


async def connect(stack: contextlib.AsyncExitStack, file: Path) -> "Connection":
    """Return a connection that ``stack`` closes; raises CRDsError USAGE for an invalid kubeconfig."""
    from app.kube.connection import Connection  # noqa: PLC0415 - see app.kube

    try:
        return await stack.enter_async_context(Connection(file))
    except Exception as error:  # noqa: BLE001 - the client library raises various errors for a malformed kubeconfig
        raise CRDsError(Exit.USAGE, f"the kubeconfig {file} cannot be used: {error!r}") from None
