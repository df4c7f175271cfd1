"""``fleethook rules export``: the objects by which workspaces of a kcp let a server register rules in them."""

from pathlib import Path
from typing import Annotated

import yaml

from fleethook.admission.declaration import RuleError
from fleethook.admission.rules_file import load_rules
from fleethook.cli.command_line import Argument
from fleethook.cli.exit_codes import fail
from fleethook.cli.options import Output, RulesOption, YamlOutputOption
from fleethook.cli.output.text_output import write_document, write_error, write_json
from fleethook.cluster.registration.consumers import ResourceName, build_export
from fleethook.model.formats.labels import is_dns1123_label
from fleethook.model.gvk import is_built_in, parse_api_version


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
    followed = _list_followed(rules or [])
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
        write_document("---\n".join(yaml.safe_dump(one, sort_keys=False) for one in documents))


def _list_followed(files: list[Path]) -> list[ResourceName]:
    """Return the resources that the rules of files follow. Exits with a message for a file that cannot be used."""
    try:
        loaded = load_rules(files)
    except RuleError as error:
        fail(str(error))
    return sorted(
        {
            (parse_api_version(api_version)[0], plural)
            for rule in loaded
            for api_version, _, plural in rule.declaration.follows
        }
    )
