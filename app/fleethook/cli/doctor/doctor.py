"""``fleethook doctor``: examine the registration with an apiserver, or a kcp, and name a remedy for each fault."""

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, get_args

from fleethook.cli.command_line import Option
from fleethook.cli.doctor.doctor_checks import Diagnosis, Level
from fleethook.cli.doctor.doctor_cluster import Doctor
from fleethook.cli.doctor.kcp_checks import examine_export, examine_kcp
from fleethook.cli.exit_codes import CHECK_FAILED, fail
from fleethook.cli.inputs.kubeconfig import KubeconfigContext, TargetOptions
from fleethook.cli.options import ConsumersOption, KcpCacheOption, Output, StrictOption, TextOutputOption
from fleethook.cli.output.findings_output import count_levels
from fleethook.cli.output.text_output import styled, write_json, write_styled
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.connection import Connection

_STYLES: Final = {"ok": "green", "note": "cyan", "unknown": "magenta", "warning": "yellow", "error": "bold red"}


def doctor(
    examined: TargetOptions = TargetOptions(),
    namespace: Annotated[
        str, Option("--namespace", "-n", help="Namespace of the dry runs; fleethook's own is usually exempt.")
    ] = "default",
    service_account: Annotated[
        str | None,
        Option(
            metavar="NAMESPACE/NAME",
            help="Service account of the server, whose rights are checked (default: those of its Pods).",
        ),
    ] = None,
    kcp: Annotated[
        bool, Option("--kcp", help="Examine a kcp that fleethook reads: context, rights, identity, shards.")
    ] = False,
    kcp_cache_kubeconfig: KcpCacheOption = None,
    kcp_export: ConsumersOption = None,
    strict: StrictOption = False,
    output: TextOutputOption = Output.TEXT,
) -> None:
    """Examine the registration of fleethook with an apiserver, and name a remedy for each fault.

    The checks: the version of the apiserver, clocks, webhook configurations, CAs, failure policies, webhooks of others
    on the same objects, the definition of overriders, the Service, reachability, and the rights of the server. For
    reachability, the command asks the apiserver to create objects that fleethook refuses, as dry runs. It stores
    nothing. Without such a dry run, it calls the URLs of the webhooks itself.

    Without --kubeconfig, --context and --in-cluster, the cluster is that of kubectl: $KUBECONFIG, or ~/.kube/config.

    The findings of a text begin with errors. A check that was not possible, for example because the user has no right,
    is unknown.

    With --kcp, the command examines a kcp in place of a registration: whether the user may list, watch and read the
    objects of all logical clusters, whether the user can resolve paths of workspaces, and whether all shards are read.

    With --kcp-export, it examines the rights of a provider, and whether the rules of the server cover each consumer.

    Exit codes: 0 success; 1 errors, or with --strict also warnings and checks that were not possible; 2 invalid
    arguments, or the cluster cannot be read.
    """
    if service_account is not None and service_account.count("/") != 1:
        fail(f"--service-account: {service_account!r} is not NAMESPACE/NAME")
    if kcp_cache_kubeconfig is not None and not kcp:
        fail("--kcp-cache-kubeconfig needs --kcp")
    target = examined.find()
    if kcp_export is not None:
        examination = _examine_export(target, kcp_export)
    elif kcp:
        examination = _examine_kcp(target, kcp_cache_kubeconfig)
    else:
        examination = _examine(target, namespace, service_account)
    found = _run(examination)
    if output is Output.JSON:
        write_json([one._asdict() for one in found])
    else:
        _print(found)
    failing = ("error", "warning", "unknown") if strict else ("error",)
    if any(one.level in failing for one in found):
        raise SystemExit(CHECK_FAILED)


async def _examine(target: KubeconfigContext, namespace: str, account: str | None) -> list[Diagnosis]:
    async with target.connect() as connection:
        examined = Doctor(connection, namespace=namespace, account=account).examine()
        return [one async for one in examined]


async def _examine_kcp(target: KubeconfigContext, cache: Path | None) -> list[Diagnosis]:
    async with contextlib.AsyncExitStack() as stack:
        connection = await stack.enter_async_context(target.connect())
        behind = None if cache is None else await stack.enter_async_context(Connection(cache))
        return [one async for one in examine_kcp(connection, behind)]


async def _examine_export(target: KubeconfigContext, export: str) -> list[Diagnosis]:
    async with target.connect(export=export) as connection:
        return [one async for one in examine_export(connection, export)]


def _run(examination: Coroutine[Any, Any, list[Diagnosis]]) -> list[Diagnosis]:
    """Return all findings. Exits with a message if the cluster cannot be read."""
    try:
        return asyncio.run(examination)
    except (APIError, UnreachableError) as error:
        fail(f"cannot examine the cluster: {error}")


def _print(found: Sequence[Diagnosis]) -> None:
    for one in sorted(found, key=lambda one: get_args(Level).index(one.level)):
        head = styled(f"{one.level:<8}", _STYLES[one.level])
        write_styled(head, styled(f"{one.check}: {one.text}"))
        if one.remedy:
            write_styled(styled(f"         → {one.remedy}", "dim"))
    unknown = sum(one.level == "unknown" for one in found)
    write_styled(styled(f"{count_levels(found)}{f', {unknown} not examined' if unknown else ''}"))
