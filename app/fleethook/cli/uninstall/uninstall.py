"""``fleethook uninstall``: remove everything that fleethook has registered, and restore the workloads."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Final

from fleethook.cli.command_line import Option
from fleethook.cli.exit_codes import CHECK_FAILED, fail
from fleethook.cli.inputs.cluster_reader import describe_rules
from fleethook.cli.inputs.kubeconfig import TargetOptions
from fleethook.cli.options import Output, TextOutputOption
from fleethook.cli.output.text_output import write, write_error, write_json
from fleethook.cli.uninstall.uninstall_cluster import LeaderError, Removal, Uninstaller
from fleethook.cluster.api_errors import APIError, UnreachableError

_PLANNED: Final = {"deleted": "would delete", "restored": "would restore", "cleaned": "would clean"}


def uninstall(
    changed: TargetOptions = TargetOptions(),
    dry_run: Annotated[bool, Option("--dry-run", help="Print the changes, and make none.")] = False,
    crds: Annotated[
        bool,
        Option("--crds", help="Delete the CustomResourceDefinition of YurtAppOverriders, and all overriders with it."),
    ] = False,
    output: TextOutputOption = Output.TEXT,
) -> None:
    """Remove everything that fleethook has registered with a cluster, and restore the workloads.

    The command deletes webhook configurations, roles, the Lease, and Secrets with certificates.
    It restores each workload to the template of its subject, so Pods with overrides roll out. YurtAppOverriders stay
    and have no effect. It needs no running server and no chart.

    Because the command deletes objects, one of --kubeconfig, --context and --in-cluster must name the cluster.

    Stop all servers first: a leader would register again. The command waits until it knows that no leader renews the
    Lease, at most for the duration of the Lease and some seconds. After a failure, repeat the command: it does only the
    rest.

    A workload is left if its owner or its node pool is gone, or if its annotation fleethook.io/undo is damaged.

    Exit codes: 0 nothing of fleethook is left; 1 something is left, which the output names; 2 invalid arguments, a
    leader runs, or the cluster does not respond.
    """
    target = changed.find_to_change()

    def report(row: Removal) -> None:
        if output is Output.TEXT:
            write(_format_row(row, dry_run=dry_run))

    async def run() -> Uninstaller:
        async with target.connect() as connection:
            made = Uninstaller(connection, dry_run=dry_run, definitions=crds, report=report, note=_write_note)
            await made.run()
            return made

    try:
        done = asyncio.run(run())
    except LeaderError as error:
        fail(str(error))
    except (APIError, UnreachableError) as error:
        fail(f"not finished, repeat the command: {error}")
    _report_end(done, output, dry_run=dry_run)


def _write_note(text: str) -> None:
    write_error(f"note: {text}")


def _format_row(row: Removal, *, dry_run: bool) -> str:
    action = _PLANNED.get(row.action, row.action) if dry_run else row.action
    name = f"{row.namespace}/{row.name}" if row.namespace else row.name
    return f"{action:<{14 if dry_run else 9}} {f'{row.kind} {name}'.strip()}{f': {row.detail}' if row.detail else ''}"


def _report_end(done: Uninstaller, output: Output, *, dry_run: bool) -> None:
    """Print the summary, and exit with 1 if something is left."""
    if output is Output.JSON:
        write_json({"dryRun": dry_run, "complete": done.is_complete, "objects": [one._asdict() for one in done.rows]})
    else:
        write(_summarize(done.rows, dry_run=dry_run))
    if done.missing:
        write_error(f"fleethook: the user lacks rights: {describe_rules(sorted(done.missing))}")
    if not done.is_complete:
        raise SystemExit(CHECK_FAILED)


def _summarize(rows: "Sequence[Removal]", *, dry_run: bool) -> str:
    counts = Counter(str(one.action) for one in rows)
    if not any(counts[action] for action in (*_PLANNED, "left")):
        return "nothing of fleethook is registered"
    planned = "would be " if dry_run else ""
    return ", ".join([*(f"{counts[action]} {planned}{action}" for action in _PLANNED), f"{counts['left']} left"])
