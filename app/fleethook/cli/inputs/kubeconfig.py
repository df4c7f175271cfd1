"""Finds the cluster of a command as kubectl does: the given file, ``$KUBECONFIG``, or ``~/.kube/config``."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from fleethook.cli.command_line import Option, fail
from fleethook.cli.inputs.manifests import read_values
from fleethook.cli.options import ContextOption
from fleethook.cli.output.text_output import write_error
from fleethook.model.json import as_object, list_objects

if TYPE_CHECKING:
    from fleethook.cluster.apiserver_connection import Connection

VARIABLE: Final = "KUBECONFIG"


def find_kubeconfig(given: Path | None, *, hint: str = "") -> Path:
    """Return the kubeconfig to use. Exits with a message, and the hint if none is given, if there is none.

    Args:
        given: The file of ``--kubeconfig``, None without the option.
        hint: The options that the command has besides.

    Returns:
        A file, or several with separators between them, as in ``$KUBECONFIG``. The client merges these as kubectl does,
        and skips missing ones.
    """
    if given is not None:
        return given if list_files(given) else fail(f"--kubeconfig: there is no file {given}")
    listed = os.environ.get(VARIABLE)
    path = Path(listed) if listed else Path.home() / ".kube" / "config"
    if not list_files(path):
        reason = f"names {listed}, which does not exist" if listed else f"is not set, and there is no file {path}"
        fail(f"there is no kubeconfig: ${VARIABLE} {reason}{hint}")
    return path


def find_default_cluster(kubeconfig: Path | None, context: str | None, *, files_option: str = "-f") -> Path:
    """Return the kubeconfig of a command without files. A note names it if no option does. Exits if there is none."""
    hint = f"; give {files_option} FILE, --kubeconfig FILE or --in-cluster"
    found = find_kubeconfig(kubeconfig, hint=hint)
    if kubeconfig is None and context is None:
        write_error(f"note: no files are given, so the objects are those of the cluster of {found}")
    return found


def list_files(kubeconfig: Path) -> list[Path]:
    """Return the files of a kubeconfig that exist."""
    if kubeconfig.exists():
        return [] if kubeconfig.is_dir() else [kubeconfig]
    parts = [Path(one).expanduser() for one in str(kubeconfig).split(os.pathsep) if one]
    return [part for part in parts if part.exists() and not part.is_dir()]


class KubeconfigContext(NamedTuple):
    """A cluster, as `fleethook.cluster.apiserver_connection.Connection` takes it.

    Attributes:
        kubeconfig: The kubeconfig, None for the service account of this pod.
        context: Context of the kubeconfig, None for its current context.
    """

    kubeconfig: Path | None
    context: str | None = None

    def connect(self, *, export: str | None = None) -> "Connection":
        """Return a connection to open; ``export`` is an APIExport whose consumers it reaches, too."""
        from fleethook.cluster.apiserver_connection import Connection  # noqa: PLC0415 - see fleethook.cluster
        from fleethook.cluster.kubernetes.export_connection import ExportConnection  # noqa: PLC0415 - as above

        if export is not None:
            return ExportConnection(self.kubeconfig, context=self.context, export=export)
        return Connection(self.kubeconfig, context=self.context)


class TargetOptions(NamedTuple):
    """The options of commands that send requests to one cluster (`fleethook.cli.command_line`).

    Those of commands that answer from the objects of files or a cluster are
    `fleethook.cli.inputs.objects_with_changes.SourceOptions`.
    """

    kubeconfig: Annotated[Path | None, Option(help="Kubeconfig of the cluster.")] = None
    context: ContextOption = None
    in_cluster: Annotated[bool, Option("--in-cluster", help="Use the cluster that this pod runs in.")] = False

    @property
    def is_given(self) -> bool:
        """Whether an option names the cluster. Commands that can do without one then take none."""
        return self.kubeconfig is not None or self.context is not None or self.in_cluster

    def find(self) -> KubeconfigContext:
        """Return the cluster. Exits with a message if the options contradict each other, or there is no kubeconfig."""
        if self.in_cluster:
            if self.kubeconfig is not None or self.context is not None:
                option = "--context" if self.kubeconfig is None else "--kubeconfig"
                fail(f"give only one of {option} and --in-cluster")
            return KubeconfigContext(None)
        return KubeconfigContext(
            find_kubeconfig(self.kubeconfig, hint="; give --kubeconfig FILE or --in-cluster"), self.context
        )


_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def find_namespace(kubeconfig: Path | None, context: str | None) -> str:
    """Return the namespace of objects that name none, as kubectl finds it.

    Args:
        kubeconfig: The kubeconfig file, whose context may name a namespace; None for this pod.
        context: Context of the kubeconfig, None for its current context.
    """
    if kubeconfig is None:
        return (_NAMESPACE_FILE.read_text().strip() if _NAMESPACE_FILE.exists() else "") or "default"
    # Of several files, the first one that has a context or names the current one counts, as for kubectl.
    configs = [as_object(value.value) for file in list_files(kubeconfig) for value in read_values(file)]
    name = context or next(filter(None, (config.get("current-context") for config in configs)), None)
    contexts = (one for config in configs for one in list_objects(config.get("contexts")))
    used = next((one.get("context") for one in contexts if one.get("name") == name), None)
    return str(as_object(used).get("namespace") or "default")
