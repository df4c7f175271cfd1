"""The ``fleethook`` command: one module per command."""

import sys

import typer

from app import __version__
from app.cli.certs import certs
from app.cli.crds import crds
from app.cli.explain import explain
from app.cli.interpret import interpret
from app.cli.lint import lint
from app.cli.render import render
from app.cli.serve import serve

app = typer.Typer(
    name="fleethook",
    help="Admission and review webhooks for a fleet of Kubernetes clusters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve)
app.command()(render)
app.command()(explain)
app.command()(lint)
app.add_typer(certs, name="certs")
app.add_typer(crds, name="crds")
app.add_typer(interpret, name="interpret")


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
    app()
