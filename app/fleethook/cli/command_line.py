"""The ``fleethook`` program: its commands, declared by signatures of functions, run by Click, ended with an exit code.

``Annotated[Path | None, Option("--config", help="…")]`` declares one option; a NamedTuple with such members declares
several, and the function gets the tuple. Other members keep their defaults. The docstring is the help.

Exit codes: 0 success; 1 the check failed; 2 invalid arguments or unreadable input. Those of ``fleethook crds`` are in
`fleethook.engines.crds.redaction_and_exit_codes`.
"""

import contextlib
import functools
import gc
import inspect
import os
import re
import signal
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NoReturn, cast

import click
from click.shell_completion import CompletionItem, shell_complete

from fleethook import __version__
from fleethook.cli.output.text_output import STANDARD_OUTPUT, OutputError, open_standard_output, write, write_error
from fleethook.engine import CommandSpec, installed_engines, load_reference

CHECK_FAILED: Final = 1
UNREADABLE: Final = 2
INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as of a shell: 128 and the number of SIGINT."""
_BROKEN_PIPE: Final = 1
"""Exit code if the reader of standard output has closed the pipe."""
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

Function = Callable[..., None]

# pflag, the library of kubectl, also reads the value of a short option after "=".
_SHORT_WITH_VALUE: Final = re.compile(r"-(\w+)=(.*)", re.DOTALL)


class Option:
    """The declaration of an option.

    Args:
        names: Its names; without them, one is made of the parameter's name.
        help: The effect of the option.
        metavar: The word for its value, instead of one for its type.
        minimum: The least number.
        maximum: The largest number.
        choices: The values of an enumeration that are allowed, instead of all.
    """

    def __init__(
        self,
        *names: str,
        help: str,  # noqa: A002 - the usual name in such libraries
        metavar: str | None = None,
        minimum: float | None = None,
        maximum: float | None = None,
        choices: Sequence[StrEnum] = (),
    ) -> None:
        self.names: Final = names
        self.help: Final = help
        self.metavar: Final = metavar
        self.limits: Final = minimum, maximum
        self.choices: Final = choices


class Argument(Option):
    """The declaration of a positional argument. A list takes all further arguments."""


class CommandGroup(click.Group):
    """A command with commands of its own, each of which is imported when it runs."""

    def __init__(
        self,
        text: str,
        specs: Mapping[str, "CommandSpec | Function | CommandGroup"],
        function: Function | None = None,
        **settings: Any,
    ) -> None:
        """Prepare.

        Args:
            text: Its help.
            specs: Its commands by name: each a `CommandSpec`, a function or a `CommandGroup`.
            function: Declares the options that may precede the command's name, and runs before the command.
            settings: Other arguments of Click.
        """
        own = {} if function is None else _declare(function)
        super().__init__(help=text, subcommand_metavar="COMMAND [ARGUMENTS]...", **own, **settings)
        # Click reads only the names.
        self.commands = cast("dict[str, click.Command]", specs)
        self._specs: Final = specs

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's signature
        """Return the names in the order of their declaration."""
        return [*self._specs]

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        """Import a command and return it, None for an unknown name."""
        found: Any = self._specs.get(cmd_name)
        if isinstance(found, CommandSpec):
            found = load_reference(found.reference)
        if found is None or isinstance(found, click.Command):
            return found
        return _Command(cmd_name, help=inspect.getdoc(found), **_declare(found))

    def summarize(self, name: str) -> str:
        """Return the first paragraph of a command's help."""
        spec = self._specs[name]
        if isinstance(spec, CommandSpec):
            return spec.summary
        text = (spec.help if isinstance(spec, click.Command) else inspect.getdoc(spec)) or ""
        return " ".join(text.partition("\n\n")[0].split())

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """Write the list of commands below their headings."""
        parts: dict[str, list[tuple[str, str]]] = {}
        for name, spec in self._specs.items():
            heading = spec.heading if isinstance(spec, CommandSpec) else "Commands"
            parts.setdefault(heading, []).append((name, self.summarize(name)))
        for heading, rows in parts.items():
            with formatter.section(heading):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names of commands and options that begin with the text, without importing the commands."""
        names = [CompletionItem(name) for name in self._specs if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


class _Command(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        joined = [_SHORT_WITH_VALUE.fullmatch(arg) for arg in args]
        args = [f"-{found[1]}{found[2]}" if found else one for found, one in zip(joined, args, strict=True)]
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as error:
            options = [one.opts[0] for one in self.params if one.multiple and isinstance(one.type, click.Path)]
            if options and error.message.startswith("Got unexpected extra argument"):
                ctx.fail(f"{error.message}: give files by {' or '.join(options)}.")
            raise
        paths = [one for value in ctx.params.values() for one in (value if isinstance(value, tuple) else (value,))]
        if sum(isinstance(path, os.PathLike) and str(path) == "-" for path in paths) > 1:
            ctx.fail("- (standard input) is given more than once.")
        return rest

    def invoke(self, ctx: click.Context) -> None:
        if not gc.isenabled():
            gc.freeze()
            gc.enable()
        super().invoke(ctx)


class _Path(click.Path):
    """A path that is not empty: `Path` takes an empty one, as of an unset variable, for the working directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(value or self.fail("The path is empty.", param, ctx), param, ctx)


class _Choice(click.Choice[StrEnum]):
    """The members of an enumeration by their values; Click takes their names."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:  # noqa: ARG002 - Click's signature
        return str(choice)


def run(program: click.Group, words: Sequence[str], name: str) -> None:
    """Run the command of a command line. Exits with a message if it is invalid."""
    try:
        with program.make_context(name, [*words]) as context:
            program.invoke(context)
    except click.exceptions.Exit as ended:
        if ended.exit_code:
            raise SystemExit(ended.exit_code) from None
    except click.ClickException as error:
        error.show()
        raise SystemExit(error.exit_code) from None


def _declare(function: Function) -> dict[str, Any]:
    """Return the parameters and the callback for a command that is a function."""
    parameters = [member for _, members in _read(function) for member in members]
    return {"params": parameters, "callback": functools.partial(_call, function)}


def _call(function: Function, **values: Any) -> None:
    """Call a function with Click's values of its parameters."""
    # Click has a tuple of the values of an option that may be repeated.
    given = {name: ([*value] or None) if isinstance(value, tuple) else value for name, value in values.items()}
    arguments = {}
    for name, parameters in _read(function):
        group = function.__annotations__[name]
        members = {str(parameter.name): given[str(parameter.name)] for parameter in parameters}
        arguments[name] = group(**members) if hasattr(group, "_fields") else given[name]
    function(**arguments)


def _read(function: Function) -> Iterator[tuple[str, list[click.Parameter]]]:
    """Yield each parameter of a function with its option, or the options of its group."""
    defaults = {
        name: one.default
        for name, one in inspect.signature(function).parameters.items()
        if one.default is not inspect.Parameter.empty
    }
    for name, annotation in function.__annotations__.items():
        if name == "return":
            continue
        if fields := getattr(annotation, "_fields", None):
            members, values = annotation.__annotations__, annotation._field_defaults
            declared = [field for field in fields if hasattr(members[field], "__metadata__")]
            yield name, [_make_parameter(field, members[field], values) for field in declared]
        else:
            yield name, [_make_parameter(name, annotation, defaults)]


def _make_parameter(name: str, annotation: Any, defaults: Mapping[str, Any]) -> click.Parameter:
    """Return the parameter of an annotation; it is required unless there is a default of its name."""
    declared: Option = annotation.__metadata__[0]
    kind, default = annotation.__origin__, defaults.get(name)
    if isinstance(kind, types.UnionType):
        (kind,) = (one for one in kind.__args__ if one is not types.NoneType)
    is_list = getattr(kind, "__origin__", None) is list
    kind = kind.__args__[0] if is_list else kind
    # Of an enumeration, Click would show the name of the member.
    value = str(default) if isinstance(default, StrEnum) else default
    shared: dict[str, Any] = {
        "type": _find_type(kind, declared), "help": declared.help, "metavar": declared.metavar,
        **({"default": value} if name in defaults else {"required": True}),
    }  # fmt: skip
    if isinstance(declared, Argument):
        if declared.metavar and name in defaults:
            shared["metavar"] = f"[{declared.metavar}]"
        return click.Argument([name], nargs=-1 if is_list else 1, **shared)
    flag = f"--{name.replace('_', '-')}"
    names = declared.names or (f"{flag}/--no-{flag[2:]}" if default is True else flag,)
    is_obvious = kind is bool or is_list or default in (None, "")
    return click.Option([*names, name], is_flag=kind is bool, multiple=is_list, show_default=not is_obvious, **shared)


def _find_type(kind: type, declared: Option) -> Any:
    """Return Click's type of a value."""
    least, most = declared.limits
    if issubclass(kind, StrEnum):
        return _Choice(declared.choices or kind)
    if kind.__name__ == "Path":  # By name, because pathlib is slow to import.
        return _Path(path_type=kind)  # type: ignore[arg-type]
    if kind in (int, float) and declared.limits != (None, None):
        return (click.IntRange if kind is int else click.FloatRange)(least, most)  # type: ignore[arg-type]
    return kind


def fail(*messages: str, code: int = UNREADABLE) -> NoReturn:
    """Write each message as a line to standard error and exit with ``code``."""
    write_error(*(f"fleethook: {message}" for message in messages))
    raise SystemExit(code)


def exit_at_interrupt() -> None:
    """Let Ctrl-C end the process at once, unless the parent process has it ignored.

    A KeyboardInterrupt may arrive anywhere. An import may turn it into another error with a traceback, and a callback
    of the interpreter would lose it.
    """
    if signal.getsignal(signal.SIGINT) in (signal.SIG_DFL, signal.default_int_handler):
        signal.signal(signal.SIGINT, _exit_now)


def raise_at_interrupt() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, for a command that handles it."""
    if signal.getsignal(signal.SIGINT) is _exit_now:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit_now(*_: Any) -> NoReturn:
    os._exit(INTERRUPTED)


@contextlib.contextmanager
def report_output_errors() -> Iterator[None]:
    """Exit with a message if a write to standard output fails within the block, or flushing it fails at the end."""
    # The interpreter has no stream for a closed descriptor.
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    try:
        open_standard_output()
        try:
            yield
        finally:
            sys.stdout.flush()
    except (OutputError, BrokenPipeError) as error:
        # The interpreter would write the buffered output at exit, and print another error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_OUTPUT)
        if isinstance(error, OutputError):
            fail(str(error))
        sys.exit(_BROKEN_PIPE)


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
