"""The ``fleethook`` command: one module per command, imported when the command is asked for."""

import sys

import typer

from app import __version__
from app.cli.lazy import CommandSpec, lazy_group
from app.cli.standard_output import check_arguments, reporting_output_errors

app = typer.Typer(
    name="fleethook",
    help="Admission and review webhooks for a fleet of Kubernetes clusters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    cls=lazy_group(
        {
            "serve": CommandSpec("app.cli.serve", "serve", "Serve admission reviews over HTTPS."),
            "render": CommandSpec(
                "app.cli.render",
                "render",
                "Print what every node pool's workload will be, before anything is applied.",
            ),
            "explain": CommandSpec(
                "app.cli.explain",
                "explain",
                "Explain which webhooks a request goes to, and for each other one why not.",
            ),
            "lint": CommandSpec(
                "app.cli.lint",
                "lint",
                "Find overriders that are refused or do nothing, and webhooks that never fire or lock themselves out.",
            ),
            "convert": CommandSpec(
                "app.cli.convert",
                "convert_command",
                "Convert v1alpha1 YurtAppSets and YurtAppDaemons with their overriders to v1beta1 YurtAppSets with "
                "tweaks.",
            ),
            "certs": CommandSpec("app.cli.certs", "certs", "Make and look at serving certificates."),
            "crds": CommandSpec(
                "app.cli.crds",
                "crds",
                "Fetch, verify and cache the CRD tarballs of Karmada.",
            ),
            "interpret": CommandSpec(
                "app.cli.interpret",
                "interpret",
                "Run and test interpreters off-line: Lua, hooks, Python, native.",
            ),
        }
    ),
)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"fleethook {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=lambda wanted: _print_version(wanted=wanted), is_eager=True,
        help="Print the version and exit.",
    ),
) -> None:  # fmt: skip
    pass


def main() -> None:
    """Run the command line."""
    with reporting_output_errors():
        check_arguments(sys.argv[1:])
        app()
