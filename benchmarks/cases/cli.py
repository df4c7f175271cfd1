"""The CPU time of short commands, relative to an empty Python program."""

import os
import subprocess
import sys

from benchmarks.harness import ROOT
from benchmarks.harness.goals import at_most
from benchmarks.harness.rounds import Spread, spread
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import table

RUNS = 20
STORY = "examples/yurtappoverrider/story-2"
COMMANDS: dict[str, tuple[list[str], float]] = {
    "--version": (["--version"], 5),
    "--help": (["--help"], 6),
    "render of story 2": (["render", "-f", STORY], 15),
    "lint of one file": (["lint", "-f", f"{STORY}/overrider.yaml"], 15),
}
"""The arguments of each command, and the largest ratio."""
EMPTY = "python -c pass"
ABOUT = f"""CPU time (user and system) of a process, as a multiple of that of `{EMPTY}` in the same turn. Each command runs {RUNS} times, in turns with
the others. All modules are compiled, as pip compiles those that it installs."""


def run(context: Context) -> Section:
    """Run all commands in turns."""
    bytecode = context.scratch / "bytecode"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    programs = {EMPTY: [sys.executable, "-c", "pass"]}
    programs |= {name: [sys.executable, "-m", "fleethook", *words] for name, (words, _) in COMMANDS.items()}
    for words in programs.values():  # They also write the bytecode of the libraries.
        measure(words, environment)
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(RUNS):
        for name, words in programs.items():
            seconds[name].append(measure(words, environment))
    found = {name: compare(seconds[name], seconds[EMPTY]) for name in COMMANDS}
    rows = [
        [name, one.text(1), f"{limit:g}"]
        for (name, one), (_, limit) in zip(found.items(), COMMANDS.values(), strict=True)
    ]
    text = f"{ABOUT}\n\n{table(['command', 'times the empty program', 'goal'], rows)}"
    goals = [
        at_most(f"CPU time of {name}", COMMANDS[name][1], one, unit="times", places=1) for name, one in found.items()
    ]
    return Section("Commands", text, {"ratios": found, "goals": goals})


def measure(words: list[str], environment: dict[str, str]) -> float:
    """Return the CPU seconds of a process."""
    child = subprocess.Popen(words, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit code {child.returncode}")
    return usage.ru_utime + usage.ru_stime


def compare(times: list[float], empty: list[float]) -> Spread:
    """Return the spread of the ratios, each of two runs in the same turn."""
    return spread([one / base for one, base in zip(times, empty, strict=True)])
