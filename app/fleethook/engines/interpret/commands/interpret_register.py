"""``fleethook interpret register``: make Karmada call the server for the kinds and operations that it answers."""

import asyncio
import base64
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from fleethook.cli.exit_codes import fail
from fleethook.cli.inputs.cluster_reader import UnservedError, read_resource
from fleethook.cli.inputs.kubeconfig import TargetOptions
from fleethook.cli.inputs.manifests import fail_input, find_unused, read_objects
from fleethook.cli.options import ConventionsOption, FilesArgument, InputOptions, InterpretersOption, YamlOutput
from fleethook.cli.output.findings_output import report_input_errors
from fleethook.cli.output.text_output import write, write_document, write_error, write_json
from fleethook.cli.parameters import Option
from fleethook.cluster.kubernetes.resources import (
    CUSTOMIZATIONS,
    DEFINITIONS,
    HOOK_CONFIGURATIONS,
    WatchedResource,
    karmada_config,
)
from fleethook.cluster.manifests.kubectl_values import yaml_text
from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.registration.configuration_objects import URLReference, service_of
from fleethook.cluster.registration.paths import INTERPRET
from fleethook.cluster.store import Store
from fleethook.engines.interpret.commands.interpret_chain import INTERPRETERS, build_chain, is_interpreter
from fleethook.engines.interpret.hooks.interpreter_registration import (
    PLURAL,
    Answers,
    build_configuration,
    select_from_store,
)
from fleethook.engines.interpret.interpret_settings import InterpretSettings
from fleethook.engines.interpret.lua.runner import Runner
from fleethook.model.json import JSONObject
from fleethook.model.karmada import (
    INTERPRETER_CONFIGURATION,
    OWN_CONFIGURATION,
    ConventionsMode,
    InterpreterRegistration,
)
from fleethook.outbound.client import HookClient

if TYPE_CHECKING:
    from fleethook.cluster.connection import Connection

_RESOURCES: Final = (
    CUSTOMIZATIONS,
    *(one for one in HOOK_CONFIGURATIONS if one.group_kind == INTERPRETER_CONFIGURATION),
    # A list with a field selector needs only the rights that the server has: list and watch.
    karmada_config(InterpretSettings.model_fields["karmada_namespace"].default),
)


def register(
    files: FilesArgument = None,
    service: Annotated[
        str | None, Option(help="NAMESPACE/NAME or NAMESPACE/NAME:PORT of the Service in front of the server.")
    ] = None,
    webhook_url: Annotated[
        str | None, Option(help="URL at which Karmada calls the server, instead of a Service.")
    ] = None,
    ca_file: Annotated[
        Path | None, Option(help="PEM file of the CAs of the server's certificate (default: the system's CAs).")
    ] = None,
    manifests: Annotated[
        list[Path] | None,
        Option(
            "--filename",
            "-f",
            old=("--manifests",),
            help="File or directory of customizations and webhook configurations; may be repeated.",
        ),
    ] = None,
    interpreters: InterpretersOption = None,
    bundle: Annotated[bool, Option(help="Include the bundled interpreters, if the server uses them.")] = True,
    conventions: ConventionsOption = ConventionsMode.OFF,
    registration: Annotated[
        InterpreterRegistration,
        Option(
            "--registration",
            help="Kinds and operations to register: of your own interpreters, also those that Karmada does not "
            "interpret itself, or all. The same as the setting interpreter_registration.",
        ),
    ] = InterpreterRegistration.MISSING,
    karmada: TargetOptions = TargetOptions(),
    reading: InputOptions = InputOptions(),
    output: Annotated[
        YamlOutput | None,
        Option("--output", "-o", help="Print the configuration in this format, and change nothing."),
    ] = None,
) -> None:
    """Write the ResourceInterpreterWebhookConfiguration that makes Karmada call the server.

    It names the kinds and operations that --registration chooses from customizations, interpreters in Python, the
    bundle, the native interpreters and, for all CustomResourceDefinitions, --conventions. Kinds of other configurations
    are left out and listed on standard error.

    With --kubeconfig, --context or --in-cluster, the command reads the customizations of this Karmada, too, and applies
    the configuration there, unless --output is given. Without them, it prints the configuration.

    Exit codes: 0 success; 2 invalid arguments, unreadable input, or Karmada's apiserver refuses or does not answer.
    """
    target = karmada.find() if karmada.is_given else None
    client_config = _make_client_config(service, webhook_url, ca_file)
    with report_input_errors(output or ""):
        paths = [*(files or ()), *(manifests or ())]
        given = read_objects(paths, reading)
        used = {one.source for one in given if is_interpreter(one)}
        if unused := find_unused(paths, used, INTERPRETERS, reading):
            fail_input(unused)

    def configure(objects: Sequence[Document]) -> JSONObject:
        store, layers = _load(objects, interpreters or [], bundle=bundle, conventions=conventions)
        found = select_from_store(store, layers, registration)
        write_error(*(f"note: {one}" for one in found.left_out))
        return build_configuration(found.rules, client_config)

    if target is None:
        _print(configure(given), output or YamlOutput.YAML)
        return
    from fleethook.cluster.api_errors import APIError, UnreachableError  # noqa: PLC0415 - see fleethook.cluster
    from fleethook.cluster.registration.registrar import (  # noqa: PLC0415 - as above
        ChangingConfigurations,
        Registrar,
    )

    async def register_in_cluster() -> None:
        async with target.connect() as connection:
            definitions = (DEFINITIONS,) if bundle or conventions is not ConventionsMode.OFF else ()
            configuration = configure([*await _read_karmada(connection, (*_RESOURCES, *definitions)), *given])
            if output is not None:
                _print(configuration, output)
                return
            changing = ChangingConfigurations(lambda: [configuration], asyncio.Event())
            registrar = Registrar(connection, lambda: b"", changing=changing)
            written = await registrar.apply_changing()
            if registrar.unserved:
                fail(f"{connection.host} does not serve {PLURAL}: give the kubeconfig file of Karmada's own apiserver")
            state = "written" if written else "unchanged"
            write(f"{INTERPRETER_CONFIGURATION.kind} {OWN_CONFIGURATION} {state}")

    try:
        asyncio.run(register_in_cluster())
    except (APIError, UnreachableError) as error:
        fail(f"cannot write the configuration: {error}")


def _make_client_config(service: str | None, webhook_url: str | None, ca_file: Path | None) -> JSONObject:
    if (service is None) == (webhook_url is None):
        fail("the address of the server is missing or ambiguous: give either --service or --webhook-url")
    try:
        bundle = b"" if ca_file is None else ca_file.read_bytes()
    except OSError as error:
        fail(f"cannot read --ca-file: {error}")
    if ca_file is None:
        write_error("note: without --ca-file, Karmada trusts only the CAs of its system")
    reference = URLReference(webhook_url) if webhook_url is not None else service_of(service or "")
    client_config = reference.client_config(INTERPRET)
    return {**client_config, "caBundle": base64.b64encode(bundle).decode()} if bundle else client_config


async def _read_karmada(connection: "Connection", resources: Sequence[WatchedResource]) -> list[Document]:
    """Return the objects of a Karmada, without those of resources that it does not serve."""
    found: list[JSONObject] = []
    for resource in resources:
        with contextlib.suppress(UnservedError):
            found += await read_resource(connection, resource)
    return [Document(one, connection.host, 0) for one in found]


def _load(
    objects: Sequence[Document], interpreters: Sequence[str], *, bundle: bool, conventions: ConventionsMode
) -> tuple[Store, Mapping[str, Answers]]:
    """Return a store of the objects, and the kinds and operations that the layers of the chain answer."""
    store = Store()
    for one in objects:
        store.put(one.object)
    client = HookClient(allow_private=True)
    chain = build_chain(client, Runner(), interpreters, objects, bundle=bundle, conventions=conventions)
    return store, chain.answers()


def _print(configuration: JSONObject, output: YamlOutput) -> None:
    if output is YamlOutput.JSON:
        write_json(configuration)
    else:
        write_document(yaml_text(configuration))
