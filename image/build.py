"""Build the image with docker, podman or buildah: `make image`. Needs only the standard library.

The build installs from the package index of this machine's pip: PIP_INDEX_URL, and PIP_CERT for a private CA.
"""

import argparse
import os
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from image.tool import build_command, find_tool, run

ROOT = Path(__file__).parents[1]
_CERTIFICATE = "/run/secrets/ca.crt"


def find_version() -> str:
    """Return the version of the package."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def label_arguments() -> dict[str, str]:
    """Return the build arguments of the labels. The date is that of the commit, so that builds of it are equal."""
    revision, _, created = (
        run(["git", "-C", str(ROOT), "show", "--no-patch", "--format=%H %cI", "HEAD"]).strip().partition(" ")
    )
    return {"VERSION": find_version(), "REVISION": revision, "CREATED": created}


def index_options() -> list[str]:
    """Return the options that pass the settings of this machine's pip to the build, none of which enters the image."""
    options = []
    if index := os.environ.get("PIP_INDEX_URL"):
        options += ["--build-arg", f"PIP_INDEX_URL={index}"]
    if certificate := os.environ.get("PIP_CERT"):
        options += ["--build-arg", f"PIP_CERT={_CERTIFICATE}", "--secret", f"id=ca.crt,src={certificate}"]
    return options


def build(tag: str, base: str | None) -> None:
    """Build the image with this tag, on this base (default: that of the Dockerfile)."""
    arguments = {**label_arguments(), **({"BASE": base} if base else {})}
    given = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
    tool = find_tool()
    run([*build_command(tool), *given, *index_options(), "--tag", tag, str(ROOT)])
    print(f"{tool} built {tag}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", default=f"localhost/fleethook:{find_version()}")
    parser.add_argument("--base", help="base image (default: that of the Dockerfile)")
    given = parser.parse_args()
    build(given.tag, given.base or None)


if __name__ == "__main__":
    main()
