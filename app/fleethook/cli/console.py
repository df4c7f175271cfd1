"""``fleethook console``: a read-only web page about the objects of a directory or a cluster."""

import asyncio
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import uvloop

from fleethook.cli.command_line import Option, fail
from fleethook.cli.inputs.objects_with_changes import SourceOptions
from fleethook.cli.options import (
    ContextOption,
    ExcludeOption,
    FilenameOption,
    FilesArgument,
    InClusterOption,
    InterpretersOption,
    KcpCacheOption,
    KcpExportOption,
    KcpOption,
    KubeconfigOption,
    RulesOption,
    load_settings,
)
from fleethook.cli.output.text_output import flush, write
from fleethook.cli.serve.uvicorn_server import bind
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.manifests.manifest_files import STANDARD_INPUT
from fleethook.console.console_server import HOST, PORT, ConsoleOptions, run_console
from fleethook.console.forms_and_guard import build_address, create_token
from fleethook.console.metrics_and_lease import MetricsTarget, check_target
from fleethook.interpret.interpreter import LoadError
from fleethook.model.formats.text import describe_os_error
from fleethook.server.log import LogLines, choose_format, configure_logging


def console(
    files: FilesArgument = None,
    filename: FilenameOption = None,
    exclude: ExcludeOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    in_cluster: InClusterOption = False,
    kcp: KcpOption = False,
    kcp_cache_kubeconfig: KcpCacheOption = None,
    kcp_export: KcpExportOption = None,
    namespace: Annotated[
        str | None, Option("--namespace", "-n", help="Namespace of the server and its Lease (default: the pod's).")
    ] = None,
    interpreters: InterpretersOption = None,
    rules: RulesOption = None,
    records: Annotated[Path | None, Option(help="Directory of recorded reviews (`serve --record`).")] = None,
    crd_cache: Annotated[Path | None, Option(help="Data directory of the cache of CRD tarballs.")] = None,
    token: Annotated[bool, Option(help="Ask a browser for the token of the printed address.")] = True,
    metrics_url: Annotated[str | None, Option(help="URL of a server's /metrics, for the overview.")] = None,
    metrics_ca_file: Annotated[Path | None, Option(help="CAs that verify --metrics-url, in PEM.")] = None,
    port: Annotated[int, Option(help="Port to listen on; 0 chooses a free port.")] = PORT,
) -> None:
    """Serve web pages about overriders, webhooks, interpreters, CRD tarballs and recorded reviews.

    The pages are read-only. They show the objects of FILES or of a cluster (--kubeconfig, --in-cluster), and follow
    their changes; standard input is read once. Every page shows the command that prints the same facts.

    The console listens on 127.0.0.1, and every account of this host can connect. So the printed address has a token;
    with --no-token, every account can read the pages.

    With --kcp-export, the pages are about the rules of the workspaces that consume an APIExport of kcp.

    Exit codes: 0 shut down by a signal; 2 invalid arguments, or no usable apiserver or port.
    """
    source = SourceOptions([], kubeconfig, context, in_cluster, kcp, kcp_cache_kubeconfig=kcp_cache_kubeconfig)
    given = source.beside(files, filename)
    flags: dict[str, Any] = {
        "exclude": exclude or None,
        "manifests": given.files[0] if given.files else None,
        "kubeconfig": given.kubeconfig,
        "context": context,
        "in_cluster": in_cluster or None,
        "kcp": kcp or None,
        "kcp_cache_kubeconfig": kcp_cache_kubeconfig,
        "kcp_export": kcp_export,
        "namespace": namespace,
        "interpreters": interpreters,
        "host": HOST,
        "port": port,
    }
    settings = load_settings({name: value for name, value in flags.items() if value is not None}, None)
    _check_files("-f", given.files)
    _check_files("--rules", rules or ())
    metrics = _read_target(metrics_url, metrics_ca_file)
    secret = create_token() if token else ""
    options = ConsoleOptions(tuple(given.files), records, crd_cache, secret, metrics, tuple(rules or ()))
    configure_logging(LogLines(convert=choose_format(settings.log_format)))
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            listeners = bind(settings.host, settings.port)
            runner.run(run_console(settings, options, listeners, ready=functools.partial(_announce, secret)))
    except (APIError, UnreachableError, LoadError) as error:
        fail(str(error))
    except OSError as error:
        fail(describe_os_error(error))


def _check_files(option: str, paths: Sequence[Path]) -> None:
    """Exit with a message if a path does not exist. The pages report files that cannot be read."""
    for path in paths:
        if path != STANDARD_INPUT and not path.exists():
            fail(f"{option}: there is no file or directory {path}")


def _read_target(url: str | None, ca_file: Path | None) -> MetricsTarget | None:
    """Return the server whose metrics are shown; exit with a message if its options cannot be used."""
    if url is None:
        return None if ca_file is None else fail("--metrics-ca-file is for --metrics-url; give it, too")
    if reason := check_target(url):
        fail(f"--metrics-url: {reason}")  # The URL itself may contain a password.
    return MetricsTarget(url, ca_file)


def _announce(token: str, port: int) -> None:
    write(f"fleethook console: {build_address(HOST, port, token)}")
    flush()
