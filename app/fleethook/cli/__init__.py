"""The ``fleethook`` command: one module per subcommand, imported when the subcommand runs."""

import functools
import gc
import os
import sys
from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import shell_complete

from fleethook import __version__
from fleethook.cli.command_line import INTERRUPTED, CommandGroup, exit_at_interrupt, fail, report_output_errors, run
from fleethook.cli.output.text_output import write
from fleethook.engine import CommandSpec, installed_engines

PROGRAM: Final = "fleethook"
_PLUGIN: Final = "kubectl-fleethook"
_COMPLETE_VARIABLE: Final = "_FLEETHOOK_COMPLETE"
"""Click's scripts for shells set it."""
_HEADING: Final = "Operation"

_OPERATION: Final = {
    "serve": CommandSpec("fleethook.cli.serve.serve:serve", "Serve admission reviews over HTTPS.", _HEADING),
    "console": CommandSpec(
        "fleethook.cli.console:console",
        "Serve web pages about overriders, webhooks, interpreters, CRD tarballs and recorded reviews.",
        _HEADING,
    ),
    "lint": CommandSpec(
        "fleethook.cli.lint:lint",
        "Find overriders that are refused or have no effect, and webhooks that never fire or block themselves.",
        _HEADING,
    ),
    "replay": CommandSpec(
        "fleethook.cli.replay:replay",
        "Replay recorded reviews, and report changed decisions.",
        _HEADING,
    ),
    "doctor": CommandSpec(
        "fleethook.cli.doctor.doctor:doctor",
        "Examine the registration of fleethook with an apiserver, and name a remedy for each fault.",
        _HEADING,
    ),
    "uninstall": CommandSpec(
        "fleethook.cli.uninstall:uninstall",
        "Remove everything that fleethook has registered with a cluster, and restore the workloads.",
        _HEADING,
    ),
}


@functools.cache
def build_program() -> CommandGroup:
    """Return the program with the commands of the installed engines."""
    of_engines = {
        name: one._replace(heading=engine.system)
        for engine in installed_engines().values()
        for name, one in engine.commands.items()
    }
    program = CommandGroup(
        "Admission and review webhooks for a fleet of Kubernetes clusters.",
        {**of_engines, **_OPERATION},
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    return click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")(program)


def run_command(words: Sequence[str], name: str = PROGRAM) -> None:
    """Run a command line without the program's name."""
    if [*words] == ["--version"]:
        # Scripts ask for it, and the search for engines would take longer than all the rest.
        write(f"{PROGRAM} {__version__}")
        return
    try:
        run(build_program(), words, name)
    except OSError as error:
        # A path cannot be examined, for example below a directory that the user may not read.
        if error.filename is None:
            raise
        fail(f"{os.fsdecode(error.filename)}: {error.strerror}")


def main() -> None:
    """Run the command line, as ``fleethook`` or as kubectl's plugin."""
    exit_at_interrupt()
    # A collection would visit the modules that are being imported, and free nothing. `run` enables it again.
    gc.disable()
    is_plugin = os.path.basename(sys.argv[0]) == _PLUGIN  # noqa: PTH119 - pathlib is slow to import
    try:
        with report_output_errors():
            if instruction := os.environ.get(_COMPLETE_VARIABLE):
                sys.exit(shell_complete(build_program(), {}, PROGRAM, _COMPLETE_VARIABLE, instruction))
            run_command(sys.argv[1:], f"kubectl {PROGRAM}" if is_plugin else PROGRAM)
    except KeyboardInterrupt:
        # Only a command that calls `raise_at_interrupt` raises it.
        sys.exit(INTERRUPTED)
