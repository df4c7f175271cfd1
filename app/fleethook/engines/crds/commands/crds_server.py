"""Connects to the API server to apply CRDs to or to compare with."""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleethook.cli.inputs.kubeconfig import Target
from fleethook.engines.crds.apply.diff import CRDChange
from fleethook.engines.crds.crds_errors import CRDsError, Exit

if TYPE_CHECKING:
    from fleethook.cluster.connection import Connection


def format_changes(changes: Sequence[CRDChange]) -> list[str]:
    """Return differences as lines of text."""
    return [line for change in changes for line in change.format_lines()] or ["no differences"]


async def connect(stack: contextlib.AsyncExitStack, target: Target) -> "Connection":
    """Return a connection that ``stack`` closes; raises CRDsError USAGE for unusable credentials."""
    from fleethook.cluster.api_errors import UnreachableError  # noqa: PLC0415 - see app.kube

    try:
        return await stack.enter_async_context(target.connect())
    except UnreachableError as error:
        raise CRDsError(Exit.USAGE, str(error)) from None
