"""The program that builds and runs images: docker, podman or buildah."""

import os
import shutil
import subprocess
import sys

TOOLS = ("docker", "podman", "buildah")
VARIABLE = "IMAGE_TOOL"


def find_tool() -> str:
    """Return the program of IMAGE_TOOL, or the first that is installed and usable; exits with a message without one."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    for tool in TOOLS:
        # A docker without its daemon fails here.
        if shutil.which(tool) and subprocess.run([tool, "info"], capture_output=True, check=False).returncode == 0:
            return tool
    raise SystemExit(f"building an image needs one of {', '.join(TOOLS)}: install one, or set {VARIABLE}")


def build_command(tool: str) -> list[str]:
    """Return the command that builds an image from a Dockerfile, without its arguments."""
    # chroot isolation works without privileges beyond those of root in a container, as on most CI machines.
    return [tool, "bud", "--isolation", "chroot"] if tool == "buildah" else [tool, "build"]


def run(command: list[str]) -> str:
    """Run a command and return its standard output; exits with its errors if it fails."""
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        # buildah writes the output of the failed step there.
        sys.stderr.write(result.stdout)
        raise SystemExit(f"{' '.join(command[:2])} failed with exit code {result.returncode}")
    return result.stdout
