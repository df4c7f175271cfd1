"""Options that several commands of ``fleethook crds`` have."""

from pathlib import Path
from typing import Annotated

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
