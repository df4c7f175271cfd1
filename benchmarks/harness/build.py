"""Preparation before a measurement: builds the Go peers and writes their inputs."""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.harness import BENCHMARKS, ROOT


def build_peers(into: Path) -> None:
    """Build the programs of ``benchmarks/peers``, and `lean` also with the newer JSON package; fast if nothing changed."""
    into.mkdir(parents=True, exist_ok=True)
    # GOFLAGS of the caller would change the programs.
    plain = {**os.environ, "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
    module = BENCHMARKS / "peers"
    subprocess.run(["go", "build", "-o", f"{into}/", "./cmd/..."], cwd=module, check=True, env=plain)
    newer = {**plain, "GOEXPERIMENT": "jsonv2"}
    subprocess.run(["go", "build", "-o", into / "lean-jsonv2", "./cmd/lean"], cwd=module, check=True, env=newer)


def write_inputs(into: Path) -> None:
    """Write bodies, scripts, hooks and patches, the same for all peers."""
    subprocess.run([sys.executable, "-m", "benchmarks.peers.inputs", into], cwd=ROOT, check=True)
