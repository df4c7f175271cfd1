"""Connects to the API server to apply CRDs to or to compare with."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.crds.apply.diff import CRDChange
from app.crds.failures import CRDsError, Exit

if TYPE_CHECKING:
    from app.kube.connection import Connection

_HOME_CONFIG: Final = Path("~/.kube/config")


def format_changes(changes: Sequence[CRDChange]) -> list[str]:
    """Return differences as lines of text."""
    return [line for change in changes for line in change.format_lines()] or ["no differences"]


def find_kubeconfig(given: Path | None) -> Path:
    """Return the kubeconfig to use: the one given, $KUBECONFIG or ~/.kube/config; raises CRDsError USAGE for none."""
    found = given or Path(os.environ.get("KUBECONFIG") or _HOME_CONFIG.expanduser())
    # KUBECONFIG may name several files; some of them may be missing.
    if not any(Path(one).is_file() for one in str(found).split(os.pathsep)):
        hint = "" if given else ": give --kubeconfig, or set KUBECONFIG"
        raise CRDsError(Exit.USAGE, f"there is no kubeconfig {found}{hint}")
    return found


async def connect(stack: contextlib.AsyncExitStack, kubeconfig: Path) -> "Connection":
    """Return a connection that ``stack`` closes; raises CRDsError USAGE for an invalid kubeconfig."""
    from app.kube.connection import Connection  # noqa: PLC0415 - see app.kube

    try:
        return await stack.enter_async_context(Connection(kubeconfig))
    except Exception as error:  # noqa: BLE001 - the client library raises various errors for a malformed kubeconfig
        raise CRDsError(Exit.USAGE, f"the kubeconfig {kubeconfig} cannot be used: {error!r}") from None
