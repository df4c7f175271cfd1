"""The machine, the versions and the commit of a measurement, without which its figures mean nothing."""

import os
import platform
import re
import ssl
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.harness import BENCHMARKS, ROOT

PACKAGES = (
    "uvicorn",
    "uvloop",
    "httptools",
    "msgspec",
    "fastapi",
    "pydantic",
    "jsonpatch",
    "lupa",
    "aiohttp",
    "kubernetes-asyncio",
)
# Files that a measurement writes.
_WRITTEN = (":!benchmarks/results.json", ":!benchmarks/RESULTS.md", ":!benchmarks/plots")
MODULES = ("sigs.k8s.io/controller-runtime", "k8s.io/apiserver", "github.com/yuin/gopher-lua", "github.com/evanphx/json-patch", "gomodules.xyz/jsonpatch")  # fmt: skip
PEERS = ("kopf",)


def machine() -> dict[str, str]:
    """Return a description of the machine."""
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return {
        "CPU": f"{cpu[1] if cpu else platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        "memory": f"{int(memory[1]) / 2**20:.0f} GiB" if memory else "unknown",
        "kernel": f"{platform.system()} {platform.release()}",
    }


def versions(binaries: Path, python: Path) -> dict[str, str]:
    """Return the versions of the compared programs."""
    return {
        "Python": f"{platform.python_version()} ({platform.python_compiler()}), {ssl.OPENSSL_VERSION}",
        "packages": ", ".join(f"{name} {version(name)}" for name in PACKAGES),
        "Go": _go(binaries),
        "peers in Python": _peers(python),
    }


def origin() -> dict[str, Any]:
    """Return the measured commit, and the time."""
    commit = _run("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD").strip()
    changed = _run("git", "-C", str(ROOT), "status", "--porcelain", "--", "app", "benchmarks", *_WRITTEN).strip()
    return {
        "commit": commit + (" and changes to it" if changed else ""),
        "when": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    }


def count_changes(commit: str, paths: Sequence[str]) -> int | None:
    """Return the number of later commits to some paths, None if the repository does not have the commit."""
    found = _run(
        "git", "-C", str(ROOT), "rev-list", "--count", f"{commit.split(maxsplit=1)[0]}..HEAD", "--", *paths
    ).strip()
    return int(found) if found else None


def _go(binaries: Path) -> str:
    compiler = _run("go", "version").split()
    listed = (BENCHMARKS / "peers" / "go.mod").read_text()
    modules = [
        f"{found[1]} {found[2]}"
        for found in re.finditer(r"^\s*(\S+) (v\S+)$", listed, re.MULTILINE)
        if found[1].startswith(MODULES)
    ]
    return ", ".join([compiler[2] if len(compiler) > 2 and any(binaries.iterdir()) else "none", *modules])


def _peers(python: Path) -> str:
    code = f"from importlib.metadata import version; print(*(f'{{n}} {{version(n)}}' for n in {PEERS!r}), sep=', ')"
    return _run(str(python), "-c", code).strip()


def _run(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
