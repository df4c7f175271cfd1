"""Make a base image from Debian's packages, for machines that reach no image registry, such as CI; print its tag.

Needs root, debootstrap, and an apt with Debian's sources. The file system is kept outside the repository, in a
directory that is named by Debian's release and by the packages.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from image.tool import build_command, find_tool, run

SUITE = "bookworm"
PACKAGES = ("python3", "python3-venv", "ca-certificates")
_DOCKERFILE = "FROM scratch\nADD base.tar /\nENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
# Caches that the packages do not need.
_UNNEEDED = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale")


def find_release() -> str:
    """Return the version of Debian's release that apt offers, such as 12.4+deb12u12."""
    lines = run(["apt-cache", "policy", "base-files"]).splitlines()
    return next(line.split()[1] for line in lines if line.strip().startswith("Candidate:"))


def find_mirror() -> str:
    """Return the URL of Debian's packages in apt's sources."""
    sites = run(["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", f"Codename: {SUITE}"])
    if not sites.strip():
        raise SystemExit(f"apt has no packages of Debian {SUITE}: add its sources and run apt-get update")
    return sites.splitlines()[0]


def make_archive() -> Path:
    """Return the archive of the base, made if it is not there."""
    inputs = hashlib.sha256(" ".join((SUITE, find_release(), *PACKAGES, *_UNNEEDED, _DOCKERFILE)).encode()).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fleethook" / "image-base"
    archive = cache / inputs[:12] / "base.tar"
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "root"
        run(["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root), find_mirror()])
        for directory in _UNNEEDED:
            shutil.rmtree(root / directory, ignore_errors=True)
        made = archive.with_suffix(".new")
        run(["tar", "--create", "--file", str(made), "--directory", str(root), "--exclude=./dev/*", "."])
        made.rename(archive)
    return archive


def main() -> None:
    """Make the base and print its tag."""
    archive = make_archive()
    (archive.parent / "Dockerfile").write_text(_DOCKERFILE, encoding="utf-8")
    tag = f"localhost/fleethook-base:{archive.parent.name}"
    sys.stderr.write(run([*build_command(find_tool()), "--tag", tag, str(archive.parent)]))
    print(tag)


if __name__ == "__main__":
    main()
