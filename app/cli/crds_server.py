"""The API server that CRDs are applied to or compared with."""

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
    """Return differences as lines for people."""
    return [line for change in changes for line in change.format_lines()] or ["no differences"]


def find_kubeconfig(given: Path | None) -> Path:
    """Return the kubeconfig to use: the one given, $KUBECONFIG or ~/.kube/config; raises CRDsError USAGE for none."""
    found = given or Path(os.environ.get("KUBECONFIG") or _HOME_CONFIG.expanduser())
    # KUBECONFIG may name several files, of which some may be missing.
    if not any(Path(one).is_file() for one in str(found).split(os.pathsep)):
        told = "" if given else ": give --kubeconfig, or set KUBECONFIG"
        raise CRDsError(Exit.USAGE, f"there is no kubeconfig {found}{told}")
    return found


async def connect(stack: contextlib.AsyncExitStack, kubeconfig: Path) -> "Connection":
    """Return a connection that is closed with ``stack``; raises CRDsError USAGE for a kubeconfig of no use."""
    from app.kube.connection import Connection  # noqa: PLC0415 - see app.kube

    try:
        return await stack.enter_async_context(Connection(kubeconfig))
    except Exception as error:  # noqa: BLE001 - what a kubeconfig of an odd shape makes of the client library
        raise CRDsError(Exit.USAGE, f"the kubeconfig {kubeconfig} cannot be used: {error!r}") from None
