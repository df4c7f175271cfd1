"""``fleethook diff``: the effect of applying files on the running workloads of node pools."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from fleethook.cli.command_line import CHECK_FAILED, Option, fail
from fleethook.cli.inputs.objects_with_changes import InputObjects, SourceOptions, fill_store, read_source
from fleethook.cli.options import (
    ContextOption,
    FilenameOption,
    FilesArgument,
    InClusterOption,
    InputOptions,
    KcpOption,
    KubeconfigOption,
    NamespaceOption,
    Output,
    TextOutputOption,
)
from fleethook.cli.output.findings_output import has_failures, print_lines
from fleethook.cli.output.text_output import concatenate, styled, write_error, write_json, write_styled
from fleethook.cluster.kubernetes.watched_resources import RESOURCES, WORKLOADS
from fleethook.cluster.store import ObjectKey, key_of
from fleethook.engines.overrider.commands.overrider_lint import check_on_server, make_overrider_row
from fleethook.engines.overrider.commands.render import SubjectOption, parse_subject
from fleethook.engines.overrider.rollout.diff_prediction_and_totals import (
    PredictedEffect,
    Totals,
    predict,
    sum_outcomes,
)
from fleethook.engines.overrider.rollout.workload_effect_and_openyurt_writes import EFFECTS
from fleethook.engines.overrider.rules.findings_in_files import check_documents
from fleethook.engines.overrider.subject.bound_overriders import OVERRIDERS_BY_SUBJECT
from fleethook.model.formats.text import counted, list_names, suggestion
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import SUBJECT_KINDS

_STYLES: Final = {
    "rolls": "bold red", "deleted": "bold red", "error": "bold red", "scales": "yellow", "created": "green",
}  # fmt: skip
_LABELS: Final = {"spec": "changes spec", "metadata": "changes metadata", "error": "cannot be rendered"}
_COUNTED: Final = frozenset({"rolls", "created", "deleted"})
_OWN: Final = "/metadata/annotations/fleethook.io~1"


def print_outcomes(outcomes: Sequence[PredictedEffect], output: Output) -> None:
    """Write the effects to standard output. Text leaves out unchanged workloads."""
    (_print_json if output is Output.JSON else _print_text)(outcomes)


def _group(outcomes: Sequence[PredictedEffect]) -> Iterator[tuple[str, list[PredictedEffect]]]:
    for subject, group in groupby(outcomes, key=lambda one: one.subject):
        yield _describe_key(subject), list(group)


def _describe_key(key: ObjectKey) -> str:
    inside = f" of {key.cluster}" if key.cluster else ""
    return f"{key.group_kind.kind} {key.namespace or 'default'}/{key.name}{inside}"


def _print_text(outcomes: Sequence[PredictedEffect]) -> None:
    groups = list(_group(outcomes))
    for title, group in groups:
        write_styled(concatenate(styled(title, "bold"), styled(f": {sum_outcomes(group).headline}")))
        for predicted_effect in group:
            if predicted_effect.effect.name == "unchanged" and not predicted_effect.effect.notes:
                continue
            label = _LABELS.get(predicted_effect.effect.name, predicted_effect.effect.name)
            write_styled(
                styled(f"  {predicted_effect.pool}: {_describe_workload(predicted_effect)}"),
                styled(label, _STYLES.get(predicted_effect.effect.name, "")),
                styled(_describe_details(predicted_effect)),
            )
            for note in predicted_effect.effect.notes:
                write_styled(styled(f"    {note}", "dim"))
    if len(groups) != 1:
        write_styled(styled(f"Total: {sum_outcomes(outcomes).headline}", "bold"))


def _describe_workload(one: PredictedEffect) -> str:
    return f"{one.kind} {one.name}" if one.name else one.kind


def _describe_details(one: PredictedEffect) -> str:
    """Return the numbers, the error or the changed fields of a workload."""
    if one.error:
        return one.error
    effect, parts = one.effect, []
    if effect.name in _COUNTED:
        parts.append(counted(effect.pods, "pod"))
    if effect.replicas[0] != effect.replicas[1] and effect.name in ("rolls", "scales"):
        parts.append(f"replicas {effect.replicas[0]} → {effect.replicas[1]}")
    paths = _select_paths(one)
    parts += [f"({list_names(paths)})"] if paths else []
    return " ".join(parts)


def _select_paths(one: PredictedEffect) -> list[str]:
    """Return the changed fields that a reader looks for: without fleethook's own annotations and replicas."""
    paths = [path for path in one.effect.paths if path != "/spec/replicas"]
    foreign = [path for path in paths if not path.startswith(_OWN)]
    return foreign if foreign or one.effect.name != "metadata" else paths


def _print_json(outcomes: Sequence[PredictedEffect]) -> None:
    subjects = [
        {"subject": title, **_describe_totals(sum_outcomes(group)), "workloads": list(map(_describe_outcome, group))}
        for title, group in _group(outcomes)
    ]
    write_json({**_describe_totals(sum_outcomes(outcomes)), "subjects": subjects})


def _describe_totals(totals: Totals) -> dict[str, Any]:
    effects = {name: totals.effects[name] for name in EFFECTS if totals.effects.get(name)}
    pods = {name: totals.pods[name] for name in EFFECTS if totals.pods.get(name)}
    return {"summary": totals.headline, "count": totals.workloads, "effects": effects, "pods": pods}


def _describe_outcome(one: PredictedEffect) -> dict[str, Any]:
    effect = one.effect
    return {
        "pool": one.pool,
        "kind": one.kind,
        "name": one.name,
        "effect": effect.name,
        "pods": effect.pods,
        "replicas": {"before": effect.replicas[0], "after": effect.replicas[1]},
        "paths": effect.paths,
        "notes": effect.notes,
        "error": one.error,
    }


_WORKLOAD_KINDS: Final = frozenset(resource.group_kind for resource in WORKLOADS)
_decode_any: Final = msgspec.json.Decoder(dict[str, Any]).decode


def _decode_workload(text: bytes | msgspec.Raw) -> JSONObject:
    """Decode a workload; of its managed fields, which are half of it, only the subresources stay."""
    document = _decode_any(text)
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and isinstance(entries := metadata.get("managedFields"), list):
        metadata["managedFields"] = [
            {"subresource": entry["subresource"]} for entry in entries if "subresource" in entry
        ]
    return document


RUNNING: Final = tuple(resource._replace(decode=_decode_workload, decode_first=None) for resource in WORKLOADS)
"""The workloads of node pools with all fields that a prediction reads."""


def diff(
    files: FilesArgument = None,
    filename: FilenameOption = None,
    against: Annotated[
        list[Path] | None,
        Option(
            "--against",
            help="Directory or file of the present objects, in place of a cluster; may be repeated.",
        ),
    ] = None,
    namespace: NamespaceOption = "",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    in_cluster: InClusterOption = False,
    kcp: KcpOption = False,
    subject: SubjectOption = None,
    reading: InputOptions = InputOptions(),
    output: TextOutputOption = Output.TEXT,
) -> None:
    """Print the effect of applying files on running workloads: rollouts, scales, creations and deletions.

    FILES hold YurtAppOverriders, YurtAppSets, YurtAppDaemons and NodePools. An overrider without entries has the
    effect of a deleted one. The command reads these kinds, Deployments and StatefulSets from a cluster or from
    --against, and writes nothing.

    The effect on a workload is the first that applies: it rolls (its pods are replaced), it scales, other fields of its
    spec change, its metadata changes, or it stays unchanged. OpenYurt's controllers create and delete workloads.
    Findings of admission go to standard error.

    Exit codes: 0 no workload changes; 1 a workload changes, cannot be rendered, or admission refuses a file; 2 invalid
    arguments or unreadable input.
    """
    edit = [*(files or ()), *(filename or ())]
    if not edit:
        fail("nothing to compare: give -f FILE")
    live = SourceOptions((), kubeconfig, context, in_cluster, kcp, edit, namespace)
    options = live.beside(against, reading=reading, files_option="--against")
    source = read_source(options, [*RESOURCES, *RUNNING])
    before, after = fill_store(source.before, [OVERRIDERS_BY_SUBJECT]), source.store([OVERRIDERS_BY_SUBJECT])
    running = [document.object for document in source.before if key_of(document.object).group_kind in _WORKLOAD_KINDS]
    rows = [make_overrider_row(finding) for finding in check_documents(_select_changed(source), after)]
    if options.reads_cluster:
        rows += check_on_server(options, source.documents, after, rows, changed=source.changed)
    outcomes = predict(before, after, running, source.changed)
    if subject is not None:
        name = parse_subject(subject)
        subjects = {key for store in (before, after) for kind in SUBJECT_KINDS for key in store.keys(kind)}
        if not any(map(name.matches, subjects)):
            kind, _, _ = subject.partition("/")
            hint = suggestion(subject, {f"{kind}/{one.name}" for one in subjects if name.matches_kind(one.group_kind)})
            fail(f"--subject {subject}: there is no such YurtAppSet or YurtAppDaemon{hint}")
        outcomes = [outcome for outcome in outcomes if name.matches(outcome.subject)]
    print_outcomes(outcomes, output)
    print_lines(rows)
    if has_failures(rows, strict=reading.strict) or sum_outcomes(outcomes).changes:
        raise SystemExit(CHECK_FAILED)


def _select_changed(source: InputObjects) -> list[Any]:
    """Return the changed objects, without workloads: applying one of these is not predicted."""
    changed = [document for document in source.documents if key_of(document.object) in source.changed]
    ignored = [one for one in changed if key_of(one.object).group_kind in _WORKLOAD_KINDS]
    write_error(*(f"note: {one.place}: the effect of applying a {one.object['kind']} is not shown" for one in ignored))
    return [one for one in changed if one not in ignored]
