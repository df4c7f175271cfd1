"""Runs an image as the chart's pod would: read-only root, user 65532, no capabilities, a volume for its files.

docker and podman have options for that. buildah has none for the root file system; its image is mounted, and util-linux'
unshare, mount and setpriv give the process the same restrictions.
"""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from image.tool import run

USER = 65532
VOLUME = "/var/run/fleethook"

# Runs in new mount and PID namespaces; its arguments are the root, the directory of the examples and the command.
# The last mount makes the root read-only, with all that was created in it before.
_ENTER = f"""
set -eu
root=$1 examples=$2; shift 2
mount --bind "$root" "$root"
mkdir -p "$root/examples" "$root/proc" "$root/dev"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
# Only inside the root, because the path may have links.
chroot "$root" mount -t tmpfs -o mode=0700,uid={USER},gid={USER} tmpfs {VOLUME}
mount --bind -o ro "$examples" "$root/examples"
mount -o remount,bind,ro "$root"
exec chroot "$root" /usr/bin/setpriv --reuid {USER} --regid {USER} --clear-groups --no-new-privs \
  --bounding-set=-all --inh-caps=-all "$@"
"""


class Image:
    """An image that a test can look into and run; use it as a context manager."""

    def __init__(self, tool: str, tag: str) -> None:
        self.tool, self.tag = tool, tag
        self._container = ""
        self._root = ""

    def __enter__(self) -> Self:
        if self.tool == "buildah":
            self._container = run([self.tool, "from", "--pull-never", self.tag]).strip()
            self._root = run([self.tool, "mount", self._container]).strip()
        return self

    def __exit__(self, *_: object) -> None:
        if self._container:
            run([self.tool, "rm", self._container])

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of the image: Entrypoint, Cmd, Env, User, Labels."""
        if self.tool == "buildah":
            found = json.loads(run([self.tool, "inspect", "--type", "image", self.tag]))
            return dict(found["OCIv1"]["config"])
        return dict(json.loads(run([self.tool, "image", "inspect", self.tag]))[0]["Config"])

    def command(
        self, arguments: list[str], examples: Path, environment: Mapping[str, str], *, port: int = 0, program: str = ""
    ) -> list[str]:
        """Return the command that runs a container.

        Args:
            arguments: Arguments of the program.
            examples: Directory that the container has at ``/examples``, read-only.
            environment: Environment beside that of the image.
            port: TCP port to publish on loopback, 0 for none.
            program: The program, ``""`` for the entry point of the image.
        """
        if self.tool == "buildah":
            entry = [program] if program else self.config["Entrypoint"]
            given = {**dict(one.split("=", 1) for one in self.config["Env"]), **environment}
            variables = [f"{name}={value}" for name, value in given.items()]
            inside = ["/usr/bin/env", "--ignore-environment", *variables, *entry, *arguments]
            # Without --kill-child, the process would outlive the one that a test ends.
            isolate = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _ENTER, "sh"]
            return [*isolate, self._root, str(examples), *inside]
        options = ["--rm", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", f"--user={USER}:{USER}"]
        options += [f"--tmpfs={VOLUME}:mode=0700,uid={USER},gid={USER}", f"--volume={examples}:/examples:ro"]
        options += [f"--env={name}={value}" for name, value in environment.items()]
        options += [f"--publish=127.0.0.1:{port}:{port}"] if port else []
        options += [f"--entrypoint={program}"] if program else []
        return [self.tool, "run", *options, self.tag, *arguments]

    def terminate(self, process: "subprocess.Popen[str]") -> None:
        """Send SIGTERM to the program of a container, as a kubelet does."""
        if self.tool == "buildah":
            # unshare ignores the signal. Its only child is the program, the first process of the namespace.
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
            os.kill(int(children[0]), signal.SIGTERM)
        else:
            process.terminate()

    def output(self, program: str, *arguments: str, examples: Path) -> str:
        """Run a program in a container to its end, and return its standard output."""
        return run(self.command(list(arguments), examples, {}, program=program))


def end(process: "subprocess.Popen[str]") -> None:
    """End a container that a failed test left running."""
    if process.poll() is None:
        process.kill()
        process.wait()
