"""``fleethook compile`` and ``fleethook policies``: overriders as policies, which kube-apiserver applies by itself.

The first command compiles overriders to MutatingAdmissionPolicies; the second one removes those in a cluster.
"""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fleethook.cli.command_line import Group
from fleethook.cli.exit_codes import CHECK_FAILED, fail
from fleethook.cli.inputs.kubeconfig import TargetOptions
from fleethook.cli.inputs.sources import ClusterOptions, fill_store, read_source
from fleethook.cli.inputs.what_if import parse_name
from fleethook.cli.options import (
    FilenameOption,
    FilesArgument,
    HooksOption,
    InputOptions,
    SubjectOption,
    YamlOutput,
    YamlOutputOption,
)
from fleethook.cli.output.findings_output import Row, count_levels, has_failures, print_lines, report_input_errors
from fleethook.cli.output.text_output import write, write_document, write_error, write_json
from fleethook.cli.parameters import Option
from fleethook.cluster.kubernetes.resources import RESOURCES
from fleethook.cluster.manifests.kubectl_values import NoAliasDumper, yaml_text
from fleethook.cluster.manifests.yaml_reader import Document, FieldLines
from fleethook.cluster.store import key_of
from fleethook.engines.overrider.commands.overrider_findings import make_overrider_row
from fleethook.engines.overrider.policies.compiler import Compiled, compile_all
from fleethook.engines.overrider.policies.documents import FailurePolicy
from fleethook.engines.overrider.policies.mode import Refusal
from fleethook.engines.overrider.rollout.manifest_findings import check_documents
from fleethook.engines.overrider.subject.owner_index import OVERRIDERS_BY_SUBJECT
from fleethook.model.json import JSONObject


def compile_command(
    files: FilesArgument = None,
    filename: FilenameOption = None,
    live: ClusterOptions = ClusterOptions(),
    subject: SubjectOption = None,
    failure_policy: Annotated[
        FailurePolicy, Option(help="Admit or refuse a workload if the evaluation of its policy fails.")
    ] = FailurePolicy.IGNORE,
    hooks: HooksOption = None,
    reading: InputOptions = InputOptions(),
    output: YamlOutputOption = YamlOutput.YAML,
) -> None:
    """Compile overriders to MutatingAdmissionPolicies, which kube-apiserver applies without a webhook.

    With --hooks, compile admission rules with an expression to ValidatingAdmissionPolicies. Standard error names each
    rule in Python, which does not compile.

    Overriders, their subjects and NodePools are in FILES or in a cluster. Standard output has the policies and their
    bindings. Kubernetes 1.36 and later serve the API.

    An overrider compiles if a policy can do all that the webhook does. Otherwise it has no policy. Standard error then
    names each entry that prevents it, with the reason, file and line.

    Exit codes: 0 success; 1 an overrider does not compile; 2 invalid arguments, unreadable input or no overrider.
    """
    policies = list(_compile_rules(hooks or ()))
    if hooks and not files and not filename and live == ClusterOptions():
        if not policies:
            fail(f"nothing to compile: no rule of {', '.join(map(str, hooks))} has an expression")
        _print(policies, output)
        return
    name = None if subject is None else parse_name(subject, option="--subject")
    with report_input_errors(output):
        source = read_source(live.beside(files, filename, reading=reading), RESOURCES)
    store = fill_store(source.documents, [OVERRIDERS_BY_SUBJECT])
    clusters = sorted({key_of(one.object).cluster for one in source.documents})
    compiled = [*compile_all(store, clusters, failure_policy=failure_policy)]
    if name is not None:
        compiled = [one for one in compiled if one.subject is not None and name.matches(one.subject)]
    if not compiled:
        fail(f"nothing to compile: there is no YurtAppOverrider{f' of {subject}' if subject else ''}")
    rows = [make_overrider_row(one) for one in check_documents(source.documents, store)]
    rows += _report_refusals(compiled, source.documents, known=rows)
    _print([*policies, *(document for one in compiled for document in one.compilation.objects)], output)
    print_lines(rows)
    if has_failures(rows, strict=reading.strict):
        fail(count_levels(rows), code=CHECK_FAILED)


def _report_refusals(compiled: Sequence[Compiled], documents: Sequence[Document], *, known: Sequence[Row]) -> list[Row]:
    """Return a row for each refusal of an overrider that no finding refuses already."""
    lines = FieldLines()
    places = {key_of(one.object): one for one in documents}
    refused = {(row.cluster, row.namespace, row.name) for row in known if row.level == "error"}
    return [
        _make_row(one, refusal, _find_place(places.get(one.key), refusal, lines))
        for one in compiled
        if (one.key.cluster, one.key.namespace, one.key.name) not in refused
        for refusal in one.compilation.refusals
    ]


def _find_place(document: Document | None, refusal: Refusal, lines: FieldLines) -> str:
    if document is None:
        return ""
    line = lines.line(document, refusal.entry)
    return f"{document.source}:{line}" if line else document.source


def _make_row(one: Compiled, refusal: Refusal, place: str) -> Row:
    where = f"{refusal.pointer}: " if refusal.pointer else ""
    return Row(
        level="error",
        code="not-compiled",
        cluster=one.key.cluster,
        kind=one.key.group_kind.kind,
        namespace=one.key.namespace,
        name=one.key.name,
        webhook="",
        field=refusal.entry,
        text=f"{where}{refusal.reason}",
        place=place,
    )


def _compile_rules(files: Sequence[Path]) -> Iterator[JSONObject]:
    """Yield the policies and bindings of admission rules. Exits with a message if a file cannot be loaded."""
    if not files:
        return
    from fleethook.admission.declaration import RuleError  # noqa: PLC0415 - only --hooks needs it
    from fleethook.admission.policy import compile_policy, find_obstacle  # noqa: PLC0415 - as above
    from fleethook.admission.rules_file import load_rules  # noqa: PLC0415 - as above

    try:
        rules = load_rules(files)
    except RuleError as error:
        fail(str(error))
    for rule in rules:
        if reason := find_obstacle(rule):
            write_error(f"note: {rule.place}: only the webhook decides by the rule {rule.name}: {reason}")
        yield from compile_policy(rule)


def _print(objects: Sequence[JSONObject], output: YamlOutput) -> None:
    if output is YamlOutput.JSON:
        write_json({"apiVersion": "v1", "kind": "List", "items": objects})
        return
    for document in objects:
        write("---")
        write_document(yaml_text(document, dumper=NoAliasDumper))


if TYPE_CHECKING:
    from fleethook.engines.overrider.policies.policy_client import Removal


def remove(changed: TargetOptions = TargetOptions()) -> None:
    """Delete all policies of overriders, for example after a rollback to a version without policies.

    Because the command deletes objects, one of --kubeconfig, --context and --in-cluster must name the cluster.

    First, the webhook becomes responsible for the workloads of all overriders. Then the command deletes bindings, then
    policies. Set the mode webhook before, if a server of this version runs: its leader applies policies again.

    The user needs the rights to get and patch the MutatingWebhookConfiguration fleethook, and to list and delete
    mutatingadmissionpolicies and mutatingadmissionpolicybindings.

    Exit codes: 0 success; 1 a leader has applied policies again; 2 invalid arguments, or a request failed.
    """
    from fleethook.cluster.api_errors import APIError, UnreachableError  # noqa: PLC0415 - see fleethook.cluster
    from fleethook.cluster.registration.condition_writer import ConditionClient  # noqa: PLC0415 - as above
    from fleethook.engines.overrider.policies.policy_client import PolicyClient, remove_policies  # noqa: PLC0415 - as above

    target = changed.find_to_change()

    async def run() -> "Removal":
        async with target.connect() as connection:
            return await remove_policies(PolicyClient(connection), ConditionClient(connection))

    try:
        done = asyncio.run(run())
    except (APIError, UnreachableError) as error:
        fail(f"cannot remove the policies: {error}")
    _print_removal(done)


def _print_removal(done: "Removal") -> None:
    for subject in done.subjects:
        write(f"the webhook renders the workloads of {subject.kind} {subject.namespace}/{subject.name}")
    for one in done.objects:
        write(f"deleted {one.path.partition('/v1/')[2]} of YurtAppOverrider {one.overrider or one.uid}")
    if not done.objects:
        write("no policies found")
    if done.left:
        fail(
            f"{len(done.left)} policies and bindings exist again: set the mode webhook (chart value "
            "controller.overriderMode), or stop the server",
            code=CHECK_FAILED,
        )


policies = Group("Manage the MutatingAdmissionPolicies of overriders in a cluster.", {"remove": remove})
