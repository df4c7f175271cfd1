"""Write cases.json.gz: random objects of built-in kinds, and the same as kube-apiserver converts them (needs Go)."""

import gzip
import os
import subprocess
from pathlib import Path

import autoscalers
import written

HERE = Path(__file__).parent
MODULE = HERE.parent.parent / "e2e" / "controlplane"
OBJECTS = 6
"""Random objects of each kind."""
AUTOSCALERS = 60


def main() -> None:
    """Build the program, which takes half as long as building kube-apiserver, and store its output."""
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": ""}
    command = ["go", "run", "-trimpath", "-mod=readonly", "./conversions", str(OBJECTS)]
    made = autoscalers.lines(AUTOSCALERS) + written.lines()
    done = subprocess.run(command, cwd=MODULE, env=environment, check=True, input=made.encode(), stdout=subprocess.PIPE)
    (HERE / "cases.json.gz").write_bytes(gzip.compress(done.stdout, mtime=0))


if __name__ == "__main__":
    main()
