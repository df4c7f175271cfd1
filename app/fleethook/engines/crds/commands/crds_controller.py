"""``fleethook crds controller``: run the controller for ``Karmada`` objects."""

import os
from pathlib import Path
from typing import Annotated, Final

from fleethook.cli.inputs.kubeconfig import Target, TargetOptions
from fleethook.cli.parameters import Option
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.commands import crds_options as option
from fleethook.engines.crds.commands.crds_options import exit_on_error
from fleethook.engines.crds.controller.controller_options import Options, Reach
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.instance.karmada_instance import parse_release

DATA_DIR: Final = Path("/var/lib/karmada")
"""The data directory of Karmada's operator, which has no flag for it."""


def controller(
    data_dir: option.DataDir = None,
    host_cluster: TargetOptions = TargetOptions(),
    beside_operator: Annotated[
        bool,
        Option("--beside-operator", help="Run beside Karmada's operator: write only conditions about CRDs."),
    ] = False,
    version: Annotated[str, Option(help="Release of the operator, for instances that name none.")] = "",
    follow_instance: option.Follow = False,
    stale_if_error: option.Stale = False,
    strict: option.Strict = False,
    no_env_proxy: option.NoEnvProxy = False,
    allow_host: Annotated[
        list[str] | None, Option(help="Host to allow downloads from, or .suffix; may be repeated (default: any).")
    ] = None,
    no_private: Annotated[
        bool, Option("--no-private", help="Refuse private, loopback and link-local addresses.")
    ] = False,
    local_root: Annotated[
        Path | None, Option(help="Directory of the files that localSource may name (default: none).")
    ] = None,
    faithful_backoff: Annotated[
        bool,
        Option("--faithful-backoff", help="Retry at the Go operator's pace: after 5 ms, doubled, up to 1000 s."),
    ] = False,
    apply: Annotated[
        bool,
        Option("--apply", help="Apply the CRDs to the API server of each instance, found in its Secrets."),
    ] = False,
    namespace: Annotated[str, Option("--namespace", "-n", help="Namespace of the Lease.")] = "karmada-system",
    lease_duration: Annotated[
        float, Option(help="Seconds after which another replica takes over from one that has ended.", minimum=1)
    ] = 15.0,
    host: Annotated[str, Option(help="Address of /healthz, /readyz and /metrics.")] = "127.0.0.1",
    port: Annotated[int, Option(help="Port of these endpoints; 0 picks a free port.", minimum=0, maximum=65535)] = 8080,
    otlp_endpoint: Annotated[
        str | None, Option(help="Base URL of a collector for traces (OTLP over HTTP). Needs fleethook[otel].")
    ] = None,
) -> None:
    """Keep the CRD tarballs of all Karmada objects of a cluster cached, and report that in their status.

    --kubeconfig, --context or --in-cluster name the cluster that has the instances. In a pod, the default is
    --in-cluster. Elsewhere one of them is required, because the controller writes.

    Without --beside-operator it uses the Lease of Karmada's operator, so that only one of them handles the objects.
    """
    with exit_on_error():
        if not host_cluster.is_given and "KUBERNETES_SERVICE_HOST" not in os.environ:
            raise CRDsError(Exit.USAGE, "give one of --kubeconfig and --context, or run it in a pod")
        target = host_cluster.find() if host_cluster.is_given else Target(None)
        if version:
            parse_release(version)
        options = Options(
            version=version,
            beside=beside_operator,
            follow_instance=follow_instance,
            stale_if_error=stale_if_error,
            strict=strict,
            env_proxies=not no_env_proxy,
            faithful_backoff=faithful_backoff,
            apply=apply,
            reach=Reach(not no_private, tuple(allow_host or ()), local_root),
        )
        from fleethook.engines.crds.commands.crds_process import (  # noqa: PLC0415 - other commands need no web server
            ProcessOptions,
            run_controller,
        )

        run_controller(
            Cache(data_dir or DATA_DIR),
            options,
            ProcessOptions(target, namespace, lease_duration, host, port, otlp_endpoint),
        )
