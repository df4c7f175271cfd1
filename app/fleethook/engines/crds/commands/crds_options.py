"""Options that several commands of ``fleethook crds`` have."""

from pathlib import Path
from typing import Annotated, Final

from fleethook.cli.output.progress import Style
from fleethook.cli.parameters import Argument, Option, read_parameter
from fleethook.engines.crds.commands.crds_output import Output
from fleethook.engines.crds.provenance.identity import SOURCE
from fleethook.engines.crds.source import Policy

DataDir = Annotated[
    Path | None,
    Option(help="Data directory of the cache (default: that of the user; for the controller /var/lib/karmada)."),
]
SHARED: Final = (read_parameter("data_dir", DataDir, {"data_dir": None}),)
"""Options that may precede the name of a command."""
URL = Annotated[str | None, Argument(help="URL of the tarball.")]
Version = Annotated[
    str | None, Option(help="Release of the tarball, such as v1.18.0; with --karmada the operator's own release.")
]
Follow = Annotated[
    bool, Option("--follow-instance", help="Prefer the release of the instance's images to the operator's.")
]
DownloadPolicy = Annotated[Policy | None, Option(help="Download policy (default: the manifest's).")]
SHA256 = Annotated[str, Option(help="Expected SHA-256 digest of the tarball.")]
Proxy = Annotated[str, Option(help="URL of a proxy; takes precedence over those of the environment.")]
CA = Annotated[Path | None, Option(help="PEM file of certificate authorities to trust instead of the system's.")]
Mirror = Annotated[list[str] | None, Option(help="URL to try if the first one fails; may be repeated.")]
Offline = Annotated[bool, Option("--offline", help="Use the cache only, as policy Never does.")]
Stale = Annotated[
    bool,
    Option("--stale-if-error", help="With policy Always, fall back to the cached tarball if the download fails."),
]
Strict = Annotated[bool, Option("--strict", help="Treat warnings as errors.")]
NormalizeDot = Annotated[
    bool,
    Option("--normalize-dot", help="Accept names with a leading ./ (`tar -C directory .`); upstream refuses them."),
]
NoEnvProxy = Annotated[bool, Option("--no-env-proxy", help="Ignore proxies of the environment, such as HTTPS_PROXY.")]
Progress = Annotated[Style, Option(help="Progress display on standard error.")]
OutputFormat = Annotated[Output, Option("--output", "-o", help="Output format.")]
Provenance = Annotated[
    Path | None,
    Option(help="Attestation of the tarball, a file of the release (karmada-crds.intoto.jsonl)."),
]
TrustRoot = Annotated[
    Path | None,
    Option(help="Sigstore trusted_root.json, or PEM certificates of Fulcio, to verify --provenance."),
]
SourceRepository = Annotated[str | None, Option(help=f"Repository that --provenance must name (default: {SOURCE}).")]
SourceTag = Annotated[str | None, Option(help="Tag that --provenance must name, such as v1.18.0 (default: any ref).")]
Builder = Annotated[
    str | None,
    Option(help="Workflow that must have signed --provenance (default: slsa-github-generator's generic one)."),
]
