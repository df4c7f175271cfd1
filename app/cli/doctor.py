"""``fleethook doctor``: examine the registration with an apiserver, and name a remedy for each fault."""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final

from app.cli.doctor_cluster import Doctor
from app.cli.doctor_findings import Diagnosis
from app.cli.exit_codes import CHECK_FAILED, fail
from app.cli.json_output import write_json
from app.cli.kubeconfig import Target, TargetOptions
from app.cli.options import StrictOption
from app.cli.parameters import Option
from app.cli.terminal import styled, write_styled

_STYLES: Final = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "bold red"}


class Output(StrEnum):
    """Output formats of the command."""

    TEXT = "text"
    JSON = "json"


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
    strict: StrictOption = False,
    output: Annotated[Output, Option("--output", "-o", help="Output format.")] = Output.TEXT,
) -> None:
    """Examine the registration of fleethook with an apiserver, and name a remedy for each fault.

    The checks: the version of the apiserver, clocks, webhook configurations, CAs, failure policies, webhooks of others
    on the same objects, the definition of overriders, the Service, reachability, and the rights of the server. For
    reachability, the command asks the apiserver to create objects that fleethook refuses, as dry runs. It stores
    nothing.

    Without --kubeconfig, --context and --in-cluster, the cluster is that of kubectl: $KUBECONFIG, or ~/.kube/config.

    A check for which the user has no right is a note.

    Exit codes: 0 success; 1 errors, or warnings with --strict; 2 invalid arguments, or the cluster cannot be read.
    """
    if service_account is not None and service_account.count("/") != 1:
        fail(f"--service-account: {service_account!r} is not NAMESPACE/NAME")
    found = _examine(examined.find(), namespace, service_account)
    if output is Output.JSON:
        write_json([one._asdict() for one in found])
    else:
        _print(found)
    failing = ("error", "warning") if strict else ("error",)
    if any(one.level in failing for one in found):
        raise SystemExit(CHECK_FAILED)


def _examine(target: Target, namespace: str, account: str | None) -> list[Diagnosis]:
    """Return all findings. Exits with a message if the cluster cannot be read."""
    from app.kube.errors import APIError, UnreachableError  # noqa: PLC0415 - see app.kube

    async def examine() -> list[Diagnosis]:
        async with target.connect() as connection:
            examined = Doctor(connection, namespace=namespace, account=account).examine()
            return [one async for one in examined]

    try:
        return asyncio.run(examine())
    except (APIError, UnreachableError) as error:
        fail(f"cannot examine the cluster: {error}")


def _print(found: Sequence[Diagnosis]) -> None:
    for one in found:
        head = styled(f"{one.level:<8}", _STYLES[one.level])
        write_styled(head, styled(f"{one.check}: {one.text}"))
        if one.remedy:
            write_styled(styled(f"         → {one.remedy}", "dim"))
    numbers = {level: sum(one.level == level for one in found) for level in ("error", "warning")}
    write_styled(styled(", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in numbers.items())))
