"""Finds the kubeconfig of a command as kubectl does: the given file, ``$KUBECONFIG``, or ``~/.kube/config``."""

import os
from pathlib import Path
from typing import Final

from app.cli.exit_codes import fail

VARIABLE: Final = "KUBECONFIG"


class KubeconfigError(Exception):
    """There is no kubeconfig; the message says where it was searched."""


def find_kubeconfig(given: Path | None) -> Path:
    """Return the kubeconfig to use.

    Args:
        given: The file of ``--kubeconfig``, None without the option.

    Returns:
        A file, or several with separators between them, as in ``$KUBECONFIG``. The client merges these as kubectl does,
        and skips missing ones.

    Raises:
        KubeconfigError: There is no such file.
    """
    if given is not None:
        if not list_files(given):
            raise KubeconfigError(f"--kubeconfig: there is no file {given}")
        return given
    listed = os.environ.get(VARIABLE)
    if listed:
        if not list_files(Path(listed)):
            raise KubeconfigError(f"there is no kubeconfig: ${VARIABLE} names {listed}, which does not exist")
        return Path(listed)
    default = Path.home() / ".kube" / "config"
    if not list_files(default):
        raise KubeconfigError(f"there is no kubeconfig: ${VARIABLE} is not set, and there is no file {default}")
    return default


def list_files(kubeconfig: Path) -> list[Path]:
    """Return the files of a kubeconfig that exist."""
    if kubeconfig.exists():
        return [] if kubeconfig.is_dir() else [kubeconfig]
    parts = [Path(one).expanduser() for one in str(kubeconfig).split(os.pathsep) if one]
    return [one for one in parts if one.exists() and not one.is_dir()]


def find_kubeconfig_or_fail(given: Path | None, *, hint: str = "") -> Path:
    """Return the kubeconfig to use. Exits with a message, and the hint, if there is none."""
    try:
        return find_kubeconfig(given)
    except KubeconfigError as error:
        fail(str(error) if given is not None else f"{error}{hint}")
