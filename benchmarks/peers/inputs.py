"""Write the inputs of the Go programs, from the same sources as the Python benchmarks: `inputs.py DIR`.

UPDATE.json, CREATE.json and Explore*.json are bodies for cmd/load, UPDATE.jsonl and CREATE.jsonl a thousand different ones (-edited: with other images than their templates); lua.json and dispatch.json for the programs of
these names.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks import reviews, varied
from benchmarks.engines import dispatch_chain, dispatch_worlds
from benchmarks.engines.lua_scripts import SCRIPTS
from fleethook.engines.interpret.lua.lua_machine import LoadedScript, Machine
from fleethook.engines.interpret.lua.script_layer_and_runner import SCRIPT_LIMITS
from fleethook.engines.interpret.lua.script_parser import parse_script


def lua_inputs():
    """Return the scripts and arguments of the Lua benchmark, with the results of our machine."""
    machine, made = Machine(), []
    for script in SCRIPTS:
        program = LoadedScript(script.function, script.function, parse_script(script.source).runnable)
        documents = json.loads(json.dumps(script.arguments))  # decoded, so that no value is shared
        expected = machine.call(program, script.function, documents, results=1, limits=SCRIPT_LIMITS)[0]
        made.append({
            "name": script.title, "function": script.function, "script": script.source, "arguments": script.arguments,
            "expected": expected,
        })  # fmt: skip
    return made


def dispatch_inputs():
    """Return the worlds of the dispatch benchmark with their reviews; the hooks of the chain have paths instead of URLs."""
    matching = [
        {
            "name": case.title,
            "worlds": [{"hooks": world.count, "configurations": world.configurations} for world in case.worlds],
            "reviews": case.reviews,
        }
        for case in dispatch_worlds.cases()
    ]
    chain = {
        phase: dispatch_worlds.build_configurations(
            dispatch_worlds.build_hooks(
                ["widgets"], [{"url": f"/{phase}/{number}"} for number in range(dispatch_worlds.HOOKS)]
            ),
            phase,
        )
        for phase in dispatch_chain.PHASES.values()
    }
    chain["reviews"] = dispatch_chain.reviews()
    return {"matching": matching, "chain": chain}


def main() -> None:
    into = Path(sys.argv[1])
    into.mkdir(parents=True, exist_ok=True)
    for operation in ("UPDATE", "CREATE"):
        (into / f"{operation}.json").write_bytes(reviews.review(operation))
        varied.write_lines(into / f"{operation}.jsonl", varied.reviews(operation))
        varied.write_lines(into / f"{operation}-edited.jsonl", varied.reviews(operation, edited=True))
    for operation in ("ExploreRetaining", "ExploreStatusAggregating", "ExploreReplicaRevising"):
        (into / f"{operation}.json").write_bytes(reviews.explore_review(operation))
    for name, made in (("lua", lua_inputs()), ("dispatch", dispatch_inputs())):
        (into / f"{name}.json").write_text(json.dumps(made, separators=(",", ":")))


if __name__ == "__main__":
    main()
