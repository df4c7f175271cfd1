"""Runs tests in a network namespace of their own: every port that a page prints is free there."""

import contextlib
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.programs import require_program
from tests.serving import ROOT

MAX_SECONDS: Final = 3600
"""The time limit of all pages together: a busy machine runs their commands slowly, and each has a limit of its own."""
_UNSHARE: Final = (("unshare", "--map-root-user", "--net"), ("unshare", "--net"))
"""Forms of the command; the second one needs root, and no user namespace."""
_REMEDY: Final = (
    "the commands of the documentation are not run, because they need a network namespace with the printed ports: "
    "install util-linux, and allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "
    "kernel.apparmor_restrict_unprivileged_userns), or run the tests as root"
)
_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1


def run_in_own_network(module: Path, temporary: Path) -> None:
    """Run the tests of a file in another pytest, in a network namespace; fail with the reason if there can be none.

    ``temporary`` is a directory that no other pytest cleans up: with pytest's default, the end of this one would remove
    directories that the outer one removes at the same time, and fail.
    """
    unshare = _find_unshare()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*unshare, sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", f"--basetemp={temporary}",
         f"--timeout={MAX_SECONDS}", str(module)],
        cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def _find_unshare() -> tuple[str, ...]:
    """Return the command that starts a program in a namespace; fail the test with the reason if none does."""
    require_program(shutil.which("unshare"), f"no program unshare: {_REMEDY}")
    reasons = []
    for command in _UNSHARE:
        probe = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
        if probe.returncode == 0:
            return command
        reasons.append(probe.stderr.strip())
    pytest.fail(f"no network namespace ({'; '.join(reasons)}): {_REMEDY}")


def enable_loopback() -> None:
    """Enable the loopback interface of a new network namespace, as ``ip link set lo up`` does."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as any_socket:
        answer = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack("16sh14x", b"lo", 0))
        _, flags = struct.unpack("16sh14x", answer)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
