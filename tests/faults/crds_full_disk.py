"""Fetches on a file system that is full, and then read-only.

Run in a mount namespace: ``crds_full_disk.py DIRECTORY URL`` mounts a small tmpfs, which ends with the process, and
prints the results. The origin's tarball changes with each answer.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from fleethook.engines.crds.cache.cache_entry import TARBALL
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.instance.source_and_secrets import TarballSource
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError
from fleethook.model.crd_tarball import Policy
from tests.engines.crds.fetching import bring


def outcome(cache: Cache, url: str, policy: Policy) -> str:
    try:
        return bring(cache, url, policy).result
    except CRDsError as error:
        return f"{error.exit.name}"


def main() -> None:
    directory, url = Path(sys.argv[1]), sys.argv[2]
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", directory], check=True)
    cache, key = Cache(directory), TarballSource(url).key
    results: dict[str, object] = {"first": outcome(cache, url, Policy.ALWAYS)}
    results["full"] = outcome(cache, url, Policy.ALWAYS)
    results["left"] = [path.name for path in cache.directory.glob(".staging-*")]
    results["kept"] = cache.entry(key) is not None
    subprocess.run(["mount", "-o", "remount,size=8m", directory], check=True)
    results["roomy"] = outcome(cache, url, Policy.ALWAYS)
    os.utime(cache.path(key) / TARBALL)
    (cache.directory / ".lock").unlink()
    subprocess.run(["mount", "-o", "remount,ro", directory], check=True)
    results["read_only"] = [
        outcome(cache, url, policy) for policy in (Policy.IF_NOT_PRESENT, Policy.NEVER, Policy.ALWAYS)
    ]
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main()
