"""Options that several commands of ``fleethook crds`` have."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from app.cli.crds_output import Output
from app.cli.crds_progress import Style
from app.crds.provenance.identity import SOURCE
from app.crds.source import Policy

URL = Annotated[str | None, typer.Argument(help="URL of the tarball.")]
Version = Annotated[
    str | None, typer.Option(help="Release of the tarball, such as v1.18.0; with --karmada the operator's own release.")
]
Follow = Annotated[
    bool, typer.Option("--follow-instance", help="Prefer the release of the instance's images to the operator's.")
]
DownloadPolicy = Annotated[Policy | None, typer.Option(help="Download policy (default: the manifest's).")]
SHA256 = Annotated[str, typer.Option(help="Expected SHA-256 digest of the tarball.")]
Proxy = Annotated[str, typer.Option(help="URL of a proxy; takes precedence over those of the environment.")]
CA = Annotated[Path | None, typer.Option(help="PEM file of certificate authorities to trust instead of the system's.")]
Mirror = Annotated[list[str] | None, typer.Option(help="URL to try if the first one fails; may be repeated.")]
Offline = Annotated[bool, typer.Option("--offline", help="Use the cache only, as policy Never does.")]
Stale = Annotated[
    bool,
    typer.Option("--stale-if-error", help="With policy Always, fall back to the cached tarball if the download fails."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")]
NormalizeDot = Annotated[
    bool,
    typer.Option(
        "--normalize-dot", help="Accept names with a leading ./ (`tar -C directory .`); upstream refuses them."
    ),
]
NoEnvProxy = Annotated[
    bool, typer.Option("--no-env-proxy", help="Ignore proxies of the environment, such as HTTPS_PROXY.")
]
Progress = Annotated[Style, typer.Option(help="Progress display on standard error.")]
OutputFormat = Annotated[Output, typer.Option("--output", "-o", help="Output format.")]
Provenance = Annotated[
    Path | None,
    typer.Option(help="Attestation of the tarball, a file of the release (karmada-crds.intoto.jsonl)."),
]
TrustRoot = Annotated[
    Path | None,
    typer.Option(help="Sigstore trusted_root.json, or PEM certificates of Fulcio, to verify --provenance."),
]
SourceRepository = Annotated[
    str | None, typer.Option(help=f"Repository that --provenance must name (default: {SOURCE}).")
]
SourceTag = Annotated[
    str | None, typer.Option(help="Tag that --provenance must name, such as v1.18.0 (default: any ref).")
]
Builder = Annotated[
    str | None,
    typer.Option(help="Workflow that must have signed --provenance (default: slsa-github-generator's generic one)."),
]


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each NamedTuple parameter of a command by one option for each member.

    The command still gets the tuple, made of the options' values.
    """
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    groups = {one.name: one.annotation for one in parameters if hasattr(one.annotation, "_field_defaults")}
    options: list[inspect.Parameter] = []
    for one in parameters:
        keyword = one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        options += _members(groups[one.name]) if one.name in groups else [keyword]

    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{member: given.pop(member) for member in group._fields})
        command(**given)

    run.__doc__, run.__name__ = command.__doc__, command.__name__
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in options}
    return run


def _members(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, keyword, default=group._field_defaults[name], annotation=hints[name])
        for name in group._fields
    ]
