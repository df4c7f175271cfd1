"""``fleethook diff``: the effect of applying files on the running workloads of node pools."""

from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from fleethook.cli.exit_codes import CHECK_FAILED, fail
from fleethook.cli.inputs.sources import ClusterOptions, Source, read_source
from fleethook.cli.inputs.what_if import parse_name
from fleethook.cli.options import (
    ContextOption,
    EditOption,
    FilesArgument,
    InClusterOption,
    InputOptions,
    KcpOption,
    KubeconfigOption,
    NamespaceOption,
    SubjectOption,
    WithoutOption,
)
from fleethook.cli.output.ci_output import report_input_errors
from fleethook.cli.output.findings_output import has_failures, make_overrider_row, print_lines
from fleethook.cli.output.terminal import write_error
from fleethook.cli.parameters import Option
from fleethook.cluster.kubernetes.resources import RESOURCES, WORKLOADS
from fleethook.cluster.store import Store
from fleethook.cluster.store.store import key_of
from fleethook.engines.overrider.commands.diff_output import Allowed, Output, print_outcomes
from fleethook.engines.overrider.rollout.edit import predict_edit
from fleethook.engines.overrider.rollout.guard import make_allowance, read_edit
from fleethook.engines.overrider.rollout.manifest_findings import check_documents
from fleethook.engines.overrider.rollout.prediction import predict, sum_outcomes
from fleethook.engines.overrider.subject.binding import OVERRIDERS_BY_SUBJECT
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from fleethook.work.slices import run_at_once

_WORKLOAD_KINDS: Final = frozenset(one.group_kind for one in WORKLOADS)
_decode_any: Final = msgspec.json.Decoder(dict[str, Any]).decode


def _decode_workload(text: bytes | msgspec.Raw) -> JSONObject:
    """Decode a workload; of its managed fields, which are half of it, only the subresources stay."""
    document = _decode_any(text)
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and isinstance(entries := metadata.get("managedFields"), list):
        metadata["managedFields"] = [{"subresource": one["subresource"]} for one in entries if "subresource" in one]
    return document


RUNNING: Final = tuple(one._replace(decode=_decode_workload, decode_first=None) for one in WORKLOADS)
"""The workloads of node pools with all fields that a prediction reads."""


def diff(
    files: FilesArgument = None,
    filename: EditOption = None,
    against: Annotated[
        list[Path] | None,
        Option(
            "--against",
            old=("--manifests",),
            help="Directory or file of the present objects, in place of a cluster; may be repeated.",
        ),
    ] = None,
    namespace: NamespaceOption = "",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    in_cluster: InClusterOption = False,
    kcp: KcpOption = False,
    without: WithoutOption = None,
    subject: SubjectOption = None,
    reading: InputOptions = InputOptions(),
    output: Annotated[Output, Option("--output", "-o", help="Output format.")] = Output.TEXT,
) -> None:
    """Print the effect of applying files on running workloads: rollouts, scales, creations and deletions.

    FILES hold YurtAppOverriders, YurtAppSets, YurtAppDaemons and NodePools. --without removes an object. The command
    reads these kinds, Deployments and StatefulSets from a cluster or from --against, and writes nothing.

    The effect on a workload is the first that applies: it rolls (its pods are replaced), it scales, other fields of its
    spec change, its metadata changes, or it stays unchanged. OpenYurt's controllers create and delete workloads.
    Findings of admission go to standard error.

    Exit codes: 0 no workload changes; 1 a workload changes, cannot be rendered, or admission refuses a file; 2 invalid
    arguments or unreadable input.
    """
    edit = [*(files or ()), *(filename or ())]
    if not edit and not without:
        fail("nothing to compare: give -f FILE or --without KIND/NAME")
    live = ClusterOptions(namespace, kubeconfig, context, in_cluster, kcp, edit, without)
    options = live.beside(against, reading=reading, files_option="--against")
    with report_input_errors(output):
        source = read_source(options, [*RESOURCES, *RUNNING])
    before, after = source.store_before([OVERRIDERS_BY_SUBJECT]), source.store([OVERRIDERS_BY_SUBJECT])
    running = [one.object for one in source.before if key_of(one.object).group_kind in _WORKLOAD_KINDS]
    rows = [make_overrider_row(one) for one in check_documents(_select_changed(source), after)]
    if options.reads_cluster:
        from fleethook.engines.overrider.commands.server_check import (  # noqa: PLC0415 - as for `read_source`
            check_on_server,
        )

        rows += check_on_server(options, source.documents, after, rows, changed=source.changed)
    outcomes = predict(before, after, running, source.changed)
    if subject is not None:
        name = parse_name(subject, option="--subject")
        outcomes = [one for one in outcomes if name.matches(one.subject)]
    print_outcomes(outcomes, _find_allowances(source, before, after), output)
    print_lines(rows)
    if has_failures(rows, strict=reading.strict) or sum_outcomes(outcomes).changes:
        raise SystemExit(CHECK_FAILED)


def _select_changed(source: Source) -> list[Any]:
    """Return the changed objects, without workloads: applying one of these is not predicted."""
    changed = [one for one in source.documents if key_of(one.object) in source.changed]
    ignored = [one for one in changed if key_of(one.object).group_kind in _WORKLOAD_KINDS]
    write_error(*(f"note: {one.place}: the effect of applying a {one.object['kind']} is not shown" for one in ignored))
    return [one for one in changed if one not in ignored]


def _find_allowances(source: Source, before: Store, after: Store) -> list[Allowed]:
    """Return the annotation values that allow the edits of overriders that roll workloads."""
    found = []
    for key in sorted(source.changed):
        if key.group_kind != YURT_APP_OVERRIDER:
            continue
        old, new = before.get(*key), after.get(*key)
        edit = read_edit(old, new, namespace=key.namespace, store=after)
        if edit is not None and (effects := run_at_once(predict_edit(edit))).rolls:
            found.append(Allowed(key, str(make_allowance(old, new, effects.rolls))))
    return found
