"""The inputs of `fleethook interpret`: the chain of interpreters with the check of its Lua scripts, and fixtures."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fleethook.api_schema import check_object
from fleethook.cli.fixture_results import FixtureCase, read_cases
from fleethook.cli.inputs.cluster_reader import read_cluster
from fleethook.cli.inputs.kubeconfig import TargetOptions
from fleethook.cli.inputs.manifests import find_unused, read_manifests
from fleethook.cli.options import InputOptions
from fleethook.cluster.kubernetes.watched_resources import INTERPRETING, karmada_config
from fleethook.cluster.manifests.manifest_files import is_directory, list_files, load_interpreters
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, FieldLines, ManifestError
from fleethook.cluster.store import Store, key_of
from fleethook.engines.interpret.interpret_settings import InterpretSettings
from fleethook.engines.interpret.interpreter_chain import Chain
from fleethook.engines.interpret.interpreter_fixtures import Fixture, read_fixtures
from fleethook.engines.interpret.layer_order import assemble_chain
from fleethook.engines.interpret.lua.customization_rules_and_configmap import describe_object, has_scripts, read_object
from fleethook.engines.interpret.lua.customizations_in_use_and_admission import Customizations
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import (
    CONFIGURATIONS,
    DEFINITIONS_BY_KIND,
)
from fleethook.engines.interpret.webhooks.webhook_layer import WebhookLayer
from fleethook.fixture_format import FixtureError, is_fixture
from fleethook.model.formats.field_errors import FieldError
from fleethook.model.gvk import DEFINITION
from fleethook.model.json import JSON
from fleethook.model.karmada import CUSTOMIZATION, ConventionsMode
from fleethook.outbound.calls_and_retries import HookClient


def is_interpreter(document: Document) -> bool:
    """Return whether an object configures interpreters."""
    return has_scripts(document.object) or key_of(document.object).group_kind in (*CONFIGURATIONS, DEFINITION)


INTERPRETERS: Final = "customization, webhook configuration or CustomResourceDefinition"
"""The objects of `is_interpreter` in words."""


def _find_problems(document: Document, lines: FieldLines) -> Iterator[ManifestError]:
    """Yield the problems that make an object unusable: fields that its API lacks, and scripts with mistakes."""
    found: list[FieldError] = []
    if document.line and key_of(document.object).group_kind in (CUSTOMIZATION, *CONFIGURATIONS):
        found += [FieldError(one.field, one.message) for one in check_object(document.object) if one.level == "error"]
    if has_scripts(document.object):
        found += read_object(document.object).problems
    for field, text in found:
        reason = f"{describe_object(document.object)}: {field}: {text}"
        yield ManifestError(document.source, lines.line(document, field), reason)


def list_python_files(paths: Sequence[Path], exclude: Sequence[str]) -> Iterator[Path]:
    """Yield the Python files in directories that may define an interpreter. Other files are not run."""
    directories = [path for path in paths if is_directory(path)]
    for file in list_files(directories, exclude, testdata=True, suffix=".py"):
        if isinstance(file, Path) and _may_define_interpreter(file):
            yield file


def read_rules(karmada: TargetOptions) -> list[Document]:
    """Return customizations, webhook configurations and CRDs of Karmada's control plane, none if it is not given.

    Exits with a message if the control plane cannot be read.
    """
    if not karmada.is_given:
        return []
    cluster = karmada.find()
    config = karmada_config(InterpretSettings.model_fields["karmada_namespace"].default)
    return read_cluster([*INTERPRETING, config], cluster.kubeconfig, context=cluster.context)


def _may_define_interpreter(file: Path) -> bool:
    try:
        return b"interpreter" in file.read_bytes()
    except OSError:
        return True


def build_chain(
    client: HookClient,
    runner: Runner,
    interpreters: Sequence[str],
    objects: Sequence[Document],
    *,
    bundle: bool = True,
    conventions: ConventionsMode = ConventionsMode.OFF,
) -> tuple[Chain, list[ManifestError]]:
    """Return the chain of all layers without the scripts and interpreters that cannot be used, and their problems.

    Args:
        client: Calls interpreter webhooks.
        runner: Runs Lua scripts.
        interpreters: Files or modules of interpreters in Python.
        objects: Customizations, webhook configurations and CustomResourceDefinitions.
        bundle: Whether to include the bundled interpreters.
        conventions: The operations to answer for kinds that nothing else interprets.
    """
    store = Store([DEFINITIONS_BY_KIND])
    customizations = Customizations(store, namespace=InterpretSettings.model_fields["karmada_namespace"].default)
    webhooks = WebhookLayer(store, client)
    loaded, errors = load_interpreters(interpreters)
    lines = FieldLines()
    for document in objects:
        problems = list(_find_problems(document, lines))
        errors += problems
        if not problems:
            store.put(document.object)
    chain = assemble_chain(customizations, webhooks, loaded, runner, bundle=bundle, conventions=conventions)
    return chain, errors


class FixtureSet(NamedTuple):
    """The content of files and directories.

    Attributes:
        cases: The fixtures.
        objects: Customizations and webhook configurations under test.
        interpreters: Files of interpreters in Python under test.
        errors: Documents that cannot be read, and invalid fixtures.
    """

    cases: list[FixtureCase[Fixture]]
    objects: list[Document]
    interpreters: list[str]
    errors: list[ManifestError]


def find_fixtures(paths: Sequence[Path], reading: InputOptions = InputOptions()) -> FixtureSet:
    """Return the fixtures in files and directories, and the interpreters under test."""
    python = [path for path in paths if path.suffix == ".py" and not is_directory(path)]
    manifests = [path for path in paths if path not in python]
    read = read_manifests(manifests, reading, testdata=True, select=is_fixture)
    cases, errors = read_cases(read.selected, _read_tests)
    documents = [*read.selected, *filter(is_interpreter, read.documents)]
    used = {document.source for document in documents} | {error.source for error in read.errors}
    unused = find_unused(manifests, used, f"fixture, {INTERPRETERS}", reading)
    interpreters = list(map(str, (*python, *list_python_files(paths, reading.exclude or ()))))
    return FixtureSet(cases, read.documents, interpreters, [*read.errors, *errors, *unused])


def _read_tests(document: JSON, errors: list[FixtureError]) -> Iterator[tuple[int, Fixture]]:
    return ((fixture.test, fixture) for fixture in read_fixtures(document, errors))
