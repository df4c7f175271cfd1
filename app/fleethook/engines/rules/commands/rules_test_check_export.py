"""``fleethook rules``: test, check and apply rules, and export the objects that let a server register them."""

import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import yaml

from fleethook.admission.decorators_and_files import load_rules, unite_rules
from fleethook.admission.mismatch_and_pod_templates import list_targets
from fleethook.admission.rule_in_tests import Rule
from fleethook.admission.rule_scope_and_options import (
    CONTROL_PLANE_TEXT,
    POD_SUBRESOURCES,
    Declaration,
    RuleError,
    list_named_namespaces,
)
from fleethook.cli.command_line import Argument, CommandGroup, fail
from fleethook.cli.fixture_results import (
    FixtureCase,
    FixtureResult,
    WatchOption,
    make_error_result,
    print_results,
    read_cases,
    run_and_exit,
)
from fleethook.cli.inputs.kubeconfig import KubeconfigContext, TargetOptions
from fleethook.cli.inputs.manifests import find_unused, read_manifests, write_input_errors
from fleethook.cli.inputs.objects_with_changes import fill_store, note_unused
from fleethook.cli.lint import lint_documents, report_findings
from fleethook.cli.options import (
    FilenameOption,
    FindingsOutputOption,
    InputOptions,
    Output,
    RulesOption,
    TestsOutputOption,
    YamlOutputOption,
)
from fleethook.cli.output.text_output import write, write_document, write_error, write_json
from fleethook.cluster.kubernetes.watched_resources import DEFINITIONS, DISPATCHING
from fleethook.cluster.manifests.manifest_files import describe_rules, make_load_error
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, ManifestError
from fleethook.cluster.registration.consumer_bindings_and_webhooks import CONFIGURATIONS, WRITE_VERBS
from fleethook.cluster.registration.rule_webhooks_and_outage import name_resources
from fleethook.cluster.registration.webhook_configurations import LABELS
from fleethook.cluster.store import Store
from fleethook.engines.rules.commands.rules_apply import apply_rules, list_followed, load_or_fail
from fleethook.engines.rules.rule_fixtures import RuleFixture, read_rule_fixtures, run_rule_fixture
from fleethook.fixture_format import is_fixture
from fleethook.model.formats.names_and_labels import is_dns1123_label
from fleethook.model.gvk import DEFINITION, GroupVersionKind, gvk_of, is_built_in
from fleethook.model.json import JSONObject
from fleethook.model.rule_matching import EVERY


def export(
    name: Annotated[str, Argument(metavar="NAME", help="Name of the APIExport and of the WorkspaceType.")],
    rules: RulesOption = None,
    output: YamlOutputOption = Output.YAML,
) -> None:
    """Print an APIExport and a WorkspaceType of kcp, for rules in every workspace.

    Apply them to one workspace, and run `fleethook serve --kcp-export NAME` with a kubeconfig of this workspace. Each
    new workspace of the type binds the export and accepts its permission claims. In another workspace, an APIBinding
    does the same.

    The export claims webhook configurations, and the kinds that the rules of --rules follow.

    Exit codes: 0 success; 2 invalid arguments, or a file that cannot be used.
    """
    if not is_dns1123_label(name):
        fail(f"{name!r} is no name of a WorkspaceType: use at most 63 lower-case letters, digits and hyphens")
    followed = sorted({(resource.group, resource.plural) for resource in list_followed(load_or_fail(rules or []))})
    for group, plural in followed:
        if not is_built_in(group):
            write_error(
                f"note: kcp wants the identity of the APIExport that provides {plural}.{group}: set identityHash in "
                "its claim to the status.identityHash of that export"
            )
    documents = build_export(name, followed)
    if output is Output.JSON:
        write_json({"apiVersion": "v1", "kind": "List", "items": documents})
    else:
        write_document("---\n".join(yaml.safe_dump(document, sort_keys=False) for document in documents))


_READ_VERBS: Final = ("get", "list", "watch")
"""The verbs of the claims for objects that rules follow."""


def build_export(name: str, followed: Collection[tuple[str, str]]) -> list[JSONObject]:
    """Return the APIExport that consumers bind, and a WorkspaceType whose workspaces bind it by default.

    Args:
        name: The name of both.
        followed: Group and plural of the resources that rules follow. A claim for one that another export provides
            needs its identity.
    """
    claims: list[JSONObject] = [
        {"group": resource.group, "resource": resource.plural, "verbs": [*WRITE_VERBS]} for resource in CONFIGURATIONS
    ]
    claims += [{"group": group, "resource": plural, "verbs": [*_READ_VERBS]} for group, plural in sorted(followed)]
    return [
        {
            "apiVersion": "apis.kcp.io/v1alpha2",
            "kind": "APIExport",
            "metadata": {"name": name, "labels": dict(LABELS)},
            "spec": {"permissionClaims": claims},
        },
        {
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "kind": "WorkspaceType",
            "metadata": {"name": name, "labels": dict(LABELS)},
            "spec": {
                "extend": {"with": [{"name": "universal", "path": "root"}]},
                # Without a path, kcp takes the workspace of the type.
                "defaultAPIBindings": [{"export": name}],
                # A further claim is accepted in the workspaces that exist.
                "defaultAPIBindingLifecycle": "Maintain",
            },
        },
    ]


def run_tests(
    paths: Annotated[list[Path], Argument(metavar="PATHS...", help="Files or directories of tests.")],
    rules: RulesOption = None,
    reading: InputOptions = InputOptions(),
    output: TestsOutputOption = Output.TEXT,
    watch: WatchOption = False,
) -> None:
    """Run tests of admission rules, and print the answers that differ.

    A test is a member of the list tests of a YAML document, with name, operation, object and output. The rules are
    those of --rules, or of the files that the member rules of the document lists, relative to it. The results of
    mutating rules are checked by the schemas of built-in kinds, and of the CustomResourceDefinitions in PATHS.

    Exit codes: 0 success; 1 a test failed; 2 invalid arguments, unreadable input, an invalid test or an invalid rule.
    """

    def run() -> list[FixtureResult]:
        return _run_files(paths, rules or [], reading, output)

    run_and_exit(run, watch=[*paths, *(rules or [])] if watch else None)


def _run_files(
    paths: Sequence[Path], files: Sequence[Path], reading: InputOptions, output: Output
) -> list[FixtureResult]:
    """Run all tests and print the results. An unreadable document is a result without operation."""
    read = read_manifests(paths, reading, testdata=True, select=is_fixture)
    errors, found = [*read.errors], list[FixtureResult]()
    rules = load_or_fail(files) if files else None
    definitions = [one for one in read.documents if gvk_of(one.object).group_kind == DEFINITION]
    for document in read.selected:
        cases, invalid = read_cases([document], read_rule_fixtures)
        errors += invalid
        try:
            own = rules or load_rules(list(_list_files(document)))
        except ValueError as error:
            errors.append(ManifestError(document.source, document.line, str(error)))
            continue
        for case in cases:
            try:
                found.append(_run_case(own, case, [definition.object for definition in definitions]))
            except ValueError as error:
                errors.append(ManifestError(str(case.path), case.line, f"{case.fixture.name}: {error}"))
    sources = {one.source for one in (*read.selected, *definitions)} | {one.source for one in errors}
    errors += find_unused(paths, sources, "tests: give a document with the list tests, and rules by --rules", reading)
    if not found and not errors:
        fail(f"no tests in {', '.join(map(str, paths))}")
    write_input_errors(errors)
    unreadable = [*map(make_error_result, errors)]
    shown = found if output is Output.TEXT else [*unreadable, *found]
    print_results(shown, output, command="fleethook rules test", layer="rule")
    return [*unreadable, *found]


def _list_files(document: Document) -> Iterator[Path]:
    """Yield the files of rules that a document names; raises ValueError if it names none."""
    named = document.object.get("rules")
    if not isinstance(named, list) or not named or not all(isinstance(one, str) for one in named):
        raise ValueError("rules is no list of files: give [rules.py], for example, or --rules")
    folder = Path() if document.source == "<stdin>" else Path(document.source).parent
    return (folder / one for one in named)


def _run_case(
    rules: Sequence[Rule], case: FixtureCase[RuleFixture], definitions: Sequence[JSONObject]
) -> FixtureResult:
    """Run one test; raises FixtureError."""
    started, fixture = time.perf_counter(), case.fixture
    found = run_rule_fixture(rules, fixture, definitions)
    seconds = time.perf_counter() - started
    if found.unasked:
        place = f"{case.path}:{case.line}: {fixture.name}"
        write_error(f"note: {place}: no rule is asked: {found.unasked}: expect `matched: false`, or change the request")
    return FixtureResult(
        str(case.path), case.line, fixture.name, fixture.operation, found.rule, seconds, found.error, found.differences
    )


def check(
    files: Annotated[list[Path], Argument(metavar="FILES...", help="Files (*.py) of admission rules.")],
    filename: FilenameOption = None,
    cluster: TargetOptions = TargetOptions(),
    reading: InputOptions = InputOptions(),
    output: FindingsOutputOption = Output.TEXT,
) -> None:
    """Check files of admission rules as the server does at its start, and print the rules and their findings.

    The command runs the files, and checks the arguments of the decorators, with selectors and CEL expressions. Below
    the list of rules are the findings of `fleethook lint`, for example about a rule that never fires.

    Known kinds are the built-in ones and the CustomResourceDefinitions of -f or of a cluster (--kubeconfig, --context,
    --in-cluster). Other kinds are warnings.

    `--output github` for pull requests prints only the findings.

    Exit codes: 0 success; 1 errors found; 2 invalid arguments, unreadable input or a file that cannot be used.
    """
    rules, errors = _load_each(files)
    read = read_manifests(filename or (), reading)
    note_unused(filename or (), read.documents, DISPATCHING)
    errors += read.errors
    documents = [*read.documents, *(_read_definitions(cluster.find()) if cluster.is_given else ())]
    described = describe_rules(rules)
    places = {document.place for document in described}
    rows = [row for row in lint_documents([*documents, *described], None) if row.place in places]
    write_input_errors(errors)
    if output is Output.TEXT:
        from fleethook.engines.dispatch.schema_owner_and_cluster_paths import INDEXES  # noqa: PLC0415 - only this command needs it

        _print_rules(rules, fill_store(documents, INDEXES))
    report_findings(rows, errors, output, strict=reading.strict)


def _load_each(files: Sequence[Path]) -> tuple[list[Rule], list[ManifestError]]:
    """Return the rules of all usable files, and an error for each other file."""
    rules, errors = list[Rule](), list[ManifestError]()
    for file in files:
        try:
            rules = unite_rules([*rules, *load_rules([file])])
        except RuleError as error:
            errors.append(make_load_error(error))
    return rules, errors


def _read_definitions(cluster: KubeconfigContext) -> list[Document]:
    # Commands about files start faster without asyncio.
    from fleethook.cli.inputs.cluster_reader import read_cluster  # noqa: PLC0415

    return read_cluster([DEFINITIONS], cluster.kubeconfig, context=cluster.context)


def _print_rules(rules: Sequence[Rule], store: Store) -> None:
    """Write the place, the requests and the sight of each rule."""
    for rule in rules:
        declared = rule.declaration
        version = GroupVersionKind(declared.group, declared.version, "").api_version
        templates = [target.resource for target in list_targets(declared)][1:]
        further = f" and the templates of {', '.join(templates)}" if templates else ""
        requests = f"{', '.join(name_resources(declared))} ({version}){further} on {', '.join(declared.operations)}"
        verb = "change" if declared.mutates else "validate"
        write(f"{rule.file}:{rule.line}: {rule.name}: {verb} {requests}", f"  {_describe_sight(declared, store)}")


def _describe_sight(declared: Declaration, store: Store) -> str:
    """Return the namespaces and resources whose objects a rule gets, in one line."""
    from fleethook.engines.dispatch.lint.rule_and_binding_checks import find_scopes  # noqa: PLC0415 - only this command needs it

    scopes = find_scopes(store, cluster="", group=declared.group, resource=declared.resource)
    namespaced = declared.scope != "Cluster" and scopes != {False}
    named = sorted(list_named_namespaces(declared.namespace_selector))
    if not namespaced:
        seen = "objects without a namespace"
    elif named:
        seen = f"the namespaces {', '.join(named)}"
    else:
        selected = "the namespaces of its selector" if declared.namespace_selector else "all namespaces"
        seen = f"{selected} except {', '.join((*declared.exempt, 'that of the server'))}"
    return f"sees {seen}{''.join(f'; not {one}' for one in _list_unseen(declared, store))}"


def _list_unseen(declared: Declaration, store: Store) -> Iterator[str]:
    from fleethook.engines.dispatch.lint.rule_and_binding_checks import serves  # noqa: PLC0415 - only this command needs it

    group, resource = declared.group, declared.resource
    if "not-control-plane" in declared.conditions and resource == EVERY:
        yield CONTROL_PLANE_TEXT
    if declared.subresource or set(declared.operations) == {"DELETE"}:
        return
    if (group, resource) == ("", "pods") and len(declared.subresources) == 1:
        yield ", ".join(f"pods/{one}" for one in POD_SUBRESOURCES)
    if resource == EVERY:
        yield "subresources, such as pods/resize and deployments/scale: declare subresource='scale', for example"
    elif serves(store, cluster="", group=group, resource=(resource, "scale"), versions=frozenset({declared.version})):
        yield f"{resource}/scale, which changes the replicas: declare subresource='scale' for it"


rules = CommandGroup(
    "Test and check admission rules in Python.",
    {"test": run_tests, "check": check, "apply": apply_rules, "export": export},
)
