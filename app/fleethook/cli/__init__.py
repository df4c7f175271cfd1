"""The ``fleethook`` command: one module per subcommand, imported when the subcommand runs."""

import functools
import gc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from fleethook import __version__
from fleethook.cli.command_line import CommandSpec, Group, run
from fleethook.cli.exit_codes import INTERRUPTED, check_arguments, exit_at_interrupt, fail, report_output_errors
from fleethook.cli.output.text_output import write
from fleethook.cli.parameters import Option

if TYPE_CHECKING:
    from fleethook.engine import EngineCommand

PROGRAM: Final = "fleethook"
_PLUGIN: Final = "kubectl-fleethook"
_COMPLETE_VARIABLE: Final = "_FLEETHOOK_COMPLETE"
"""Set by the completion scripts of `fleethook.cli.help`."""


def _describe_program(
    version: Annotated[bool, Option("--version", help="Print the version and exit.")] = False,
    show_completion: Annotated[
        str, Option(metavar="[bash|zsh|fish]", help="Print the completion script of a shell and exit.")
    ] = "",
) -> None:
    if version:
        write(f"{PROGRAM} {__version__}")
        return
    from fleethook.cli.help import print_script  # noqa: PLC0415 - only this option needs it

    print_script(show_completion)


class _Commands(Mapping[str, CommandSpec]):
    """The commands of the program and of the installed engines. A look-up finds an engine only when it is needed."""

    def __getitem__(self, name: str) -> CommandSpec:
        return self._specs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    @functools.cached_property
    def _specs(self) -> dict[str, CommandSpec]:
        from fleethook.engine import installed_engines  # noqa: PLC0415 - --version needs no engine

        engines = installed_engines().values()
        return {
            **{name: _find_command(command, one.system) for one in engines for name, command in one.commands.items()},
            **{name: one._replace(heading="Operation") for name, one in _OPERATION.items()},
        }


def _find_command(command: "EngineCommand", heading: str) -> CommandSpec:
    module, _, attribute = command.reference.partition(":")
    return CommandSpec(module, attribute, command.summary, heading)


_OPERATION: Final = {
    "serve": CommandSpec("fleethook.cli.serve.serve", "serve", "Serve admission reviews over HTTPS."),
    "console": CommandSpec(
        "fleethook.cli.console",
        "console",
        "Serve web pages about overriders, webhooks, interpreters, CRD tarballs and recorded reviews.",
    ),
    "lint": CommandSpec(
        "fleethook.cli.lint",
        "lint",
        "Find overriders that are refused or have no effect, and webhooks that never fire or block themselves.",
    ),
    "replay": CommandSpec(
        "fleethook.cli.replay",
        "replay",
        "Replay recorded reviews, and report changed decisions.",
    ),
    "doctor": CommandSpec(
        "fleethook.cli.doctor.doctor",
        "doctor",
        "Examine the registration of fleethook with an apiserver, and name a remedy for each fault.",
    ),
    "uninstall": CommandSpec(
        "fleethook.cli.uninstall.uninstall",
        "uninstall",
        "Remove everything that fleethook has registered with a cluster, and restore the workloads.",
    ),
    "certs": CommandSpec("fleethook.cli.certs", "certs", "Create serving certificates."),
}

COMMANDS: Final = Group(
    "Admission and review webhooks for a fleet of Kubernetes clusters.", _Commands(), _describe_program
)


def run_command(words: Sequence[str], program: str = PROGRAM) -> None:
    """Run a command line without the program's name."""
    try:
        run(COMMANDS, words, program)
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
            check_arguments(sys.argv[1:])
            if os.environ.get(_COMPLETE_VARIABLE):
                from fleethook.cli.help import complete  # noqa: PLC0415 - only scripts of shells need it

                complete(sys.argv[1:])
                return
            run_command(sys.argv[1:], f"kubectl {PROGRAM}" if is_plugin else PROGRAM)
    except KeyboardInterrupt:
        # Only a command that calls `raise_at_interrupt` raises it.
        sys.exit(INTERRUPTED)
