"""The ``fleethook`` command: one module per subcommand, imported when the subcommand runs."""

import sys
from pathlib import Path
from typing import Final

import typer

from app import __version__
from app.cli.lazy import CommandSpec, lazy_group
from app.cli.standard_output import check_arguments, report_output_errors

PROGRAM: Final = "fleethook"
_PLUGIN: Final = "kubectl-fleethook"

app = typer.Typer(
    name=PROGRAM,
    help="Admission and review webhooks for a fleet of Kubernetes clusters.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    cls=lazy_group(
        {
            "serve": CommandSpec("app.cli.serve", "serve", "Serve admission reviews over HTTPS."),
            "console": CommandSpec(
                "app.cli.console",
                "console",
                "Serve web pages about overriders, webhooks, interpreters, CRD tarballs and recorded reviews.",
            ),
            "render": CommandSpec(
                "app.cli.render",
                "render",
                "Print the workload of every node pool, before you apply anything.",
            ),
            "explain": CommandSpec(
                "app.cli.explain",
                "explain",
                "List the webhooks that a request is sent to, and the reason for skipping each other one.",
            ),
            "lint": CommandSpec(
                "app.cli.lint",
                "lint",
                "Find overriders that are refused or have no effect, and webhooks that never fire or block themselves.",
            ),
            "diff": CommandSpec(
                "app.cli.diff",
                "diff",
                "Print the effect of applying files on running workloads: rollouts, scales, creations and deletions.",
            ),
            "convert": CommandSpec(
                "app.cli.convert",
                "convert_command",
                "Convert v1alpha1 YurtAppSets and YurtAppDaemons with their overriders to v1beta1 YurtAppSets with "
                "tweaks.",
            ),
            "compile": CommandSpec(
                "app.cli.compile",
                "compile_command",
                "Compile overriders to MutatingAdmissionPolicies, which kube-apiserver applies without a webhook.",
            ),
            "policies": CommandSpec(
                "app.cli.policies",
                "policies",
                "Manage the MutatingAdmissionPolicies of overriders in a cluster.",
            ),
            "replay": CommandSpec(
                "app.cli.replay",
                "replay",
                "Ask recorded reviews again, and report which are decided differently.",
            ),
            "doctor": CommandSpec(
                "app.cli.doctor",
                "doctor",
                "Examine the registration of fleethook with an apiserver, and name a remedy for each fault.",
            ),
            "certs": CommandSpec("app.cli.certs", "certs", "Create and show serving certificates."),
            "crds": CommandSpec(
                "app.cli.crds",
                "crds",
                "Fetch, verify and cache the CRD tarballs of Karmada.",
            ),
            "interpret": CommandSpec(
                "app.cli.interpret",
                "interpret",
                "Run, test, check and register resource interpreters: Lua, webhooks, Python, native.",
            ),
        }
    ),
)


def _print_version(*, requested: bool) -> None:
    if requested:
        sys.stdout.write(f"fleethook {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=lambda requested: _print_version(requested=requested), is_eager=True,
        help="Print the version and exit.",
    ),
) -> None:  # fmt: skip
    pass


def main() -> None:
    """Run the command line, as ``fleethook`` or as kubectl's plugin."""
    is_plugin = Path(sys.argv[0]).name == _PLUGIN
    with report_output_errors():
        check_arguments(sys.argv[1:])
        app(prog_name="kubectl fleethook" if is_plugin else None)
