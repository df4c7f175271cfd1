"""Measure Lua interpreters: what a call costs next to JSON, next to no cache, and what slow scripts do to others.

`python benchmarks/lua.py [--rounds N] [--slow-seconds S]`. The three ways to call a script take turns within a round (A B C A B C); ratios
are taken within a round. CPU is the process's own. The unit is `json.loads` and `json.dumps` of the same object.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

import lupa
from lupa import lua54

from app.interpret.lua.runner import Call, Runner
from app.interpret.lua.script import read
from app.interpret.lua.vm import Limits, LuaError, Machine, Program

ROOT = Path(__file__).parent.parent
LIMITS = Limits()

RETAIN = """
function Retain(desiredObj, observedObj)
  desiredObj.spec.replicas = observedObj.spec.replicas
  if observedObj.spec.paused ~= nil then desiredObj.spec.paused = observedObj.spec.paused end
  for i, container in ipairs(desiredObj.spec.template.spec.containers) do
    local running = observedObj.spec.template.spec.containers[i]
    if running ~= nil and running.name == container.name then container.resources = running.resources end
  end
  return desiredObj
end
"""
AGGREGATE = """
function AggregateStatus(desiredObj, statusItems)
  local status = {replicas = 0, readyReplicas = 0, conditions = {}}
  for _, item in ipairs(statusItems) do
    if item.status ~= nil then
      status.replicas = status.replicas + (item.status.replicas or 0)
      status.readyReplicas = status.readyReplicas + (item.status.readyReplicas or 0)
      for _, condition in ipairs(item.status.conditions or {}) do
        if condition.status ~= "True" then
          local message = item.clusterName .. ": " .. condition.message
          table.insert(status.conditions, {type = condition.type, status = condition.status, message = message})
        end
      end
    end
  end
  desiredObj.status = status
  return desiredObj
end
"""


def deployment(replicas):
    container = {
        "image": "registry.example.com/shop/web:1.27.3",
        "env": [{"name": f"SETTING_{i}", "value": "v" * 24} for i in range(12)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {f"label-{i}": "v" * 16 for i in range(10)},
                     "annotations": {f"example.com/annotation-{i}": "v" * 60 for i in range(14)}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                 "template": {"metadata": {"labels": {"app": "web"}},
                              "spec": {"containers": [{"name": f"c{i}", **container} for i in range(4)]}}},
        "status": {"replicas": replicas, "observedGeneration": 4},
    }  # fmt: skip


def items(clusters):
    return [
        {"clusterName": f"member-{i}", "health": "Healthy", "applied": True,
         "status": {"replicas": 3, "readyReplicas": 2, "observedGeneration": 4, "conditions": [
             {"type": "Ready", "status": "False" if i % 5 else "True", "message": "not all is well"},
             {"type": "Synced", "status": "True", "message": "yes"}]}}
        for i in range(clusters)
    ]  # fmt: skip


def naive(source, name, documents):
    """As hosts of Lua are usually written: everything is compiled and converted, in a machine that stays."""
    runtime = naive.runtime
    runtime.execute(source)
    return plain(runtime.globals()[name](*(runtime.table_from(one, recursive=True) for one in documents)))


naive.runtime = lua54.LuaRuntime(register_eval=False, register_builtins=False)


def plain(value):
    if lua54.lua_type(value) != "table":
        return value
    pairs = list(value.items())
    if pairs and all(isinstance(key, int) for key, _ in pairs):
        return [plain(child) for _, child in pairs]
    return {key: plain(child) for key, child in pairs}


def cpu(call, seconds=0.4):
    call()
    count, started = 0, time.process_time()
    while (spent := time.process_time() - started) < seconds:
        call()
        count += 1
    return spent / count * 1e6


def calls(rounds):
    print(
        "| call | JSON of it | unit us | cached us | of the unit | fresh machine, no cache | compiled each call, naive host |"
    )
    print("|---|---|---|---|---|---|---|")
    machine = Machine()
    desired, observed = deployment(3), deployment(7)
    for title, source, name, given in (
        ("Retain, a Deployment", RETAIN, "Retain", (desired, observed)),
        ("AggregateStatus, 100 clusters", AGGREGATE, "AggregateStatus", (desired, items(100))),
        ("InterpretHealth", "function InterpretHealth(o) return o.status.replicas == o.spec.replicas end", "InterpretHealth", (desired,)),
    ):  # fmt: skip
        program = Program(name, name, read(source).runnable)
        texts = [json.dumps(one) for one in given]
        documents = [json.loads(text) for text in texts]  # nothing in two places

        def unit(texts=texts):
            for text in texts:
                json.dumps(json.loads(text))

        def cached(program=program, name=name, documents=documents):
            return machine.call(program, name, documents, results=1, limits=LIMITS)[0]

        def fresh(source=source, name=name, documents=documents):
            program = Program(name, name, read(source).runnable)
            return Machine().call(program, name, documents, results=1, limits=LIMITS)[0]

        def host(source=source, name=name, documents=documents):
            return naive(source, name, documents)

        assert cached() == fresh() == host()
        found = [{one.__name__: cpu(one) for one in (unit, cached, fresh, host)} for _ in range(rounds)]
        middle = {key: statistics.median(one[key] for one in found) for key in found[0]}

        def ratio(over, under, found=found):
            values = [one[over] / one[under] for one in found]
            return f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"

        size = sum(map(len, texts))
        print(
            f"| {title} | {size:,} B | {middle['unit']:.0f} | **{middle['cached']:.0f}** | {ratio('cached', 'unit')} "
            f"| {middle['fresh']:.0f} us: {ratio('fresh', 'cached')}x | {middle['host']:.0f} us: {ratio('host', 'cached')}x |",
            flush=True,
        )


def runtimes():
    """The calibration, and what decided for Lua 5.4: a machine, a callback, plain code, plain code under a hook."""
    loop = (
        "local t, s = {}, 0 for i = 1, 20000 do local x = {a = i, b = 2} s = s + x.a * x.b t[i % 100] = x end return s"
    )
    print(
        "| runtime | new machine us | callback us | code us | code under a hook us | integers of 64 bits | memory limit |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in ("lua51", "luajit21", "lua54", "lua55"):
        module = __import__(f"lupa.{name}", fromlist=["LuaRuntime"])
        runtime = module.LuaRuntime(register_eval=False, register_builtins=False, unpack_returned_tuples=True)
        if name.startswith("luajit"):
            runtime.execute("jit.off(true, true) jit.off()")  # compiled code calls no hook
        code = runtime.eval(f"function() {loop} end")
        runtime.globals().host = lambda handle: (handle, "name", 1, "value", "text")
        callback = runtime.eval("function() for i = 1, 100 do local t = {host(i)} end end")
        new = cpu(lambda module=module: module.LuaRuntime(register_eval=False, register_builtins=False), 0.2)
        plainly, back = cpu(code, 0.2), cpu(callback, 0.2) / 100
        runtime.execute("debug.sethook(function() end, '', 100)")
        hooked = cpu(code, 0.2)
        exact = runtime.eval("9007199254740993 ~= 9007199254740992")
        limited = module.LuaRuntime(max_memory=1 << 20).get_max_memory() == 1 << 20
        print(
            f"| {name} | {new:.0f} | {back:.2f} | {plainly:.0f} | {hooked:.0f} | {'yes' if exact else 'no'} | {'yes' if limited else 'no'} |"
        )


async def beside(seconds):  # noqa: C901 - one run, read from top to bottom
    """Latencies of a quick script's calls on the event loop, alone and while every hostile script runs again and again."""
    scripts = []
    for path in sorted((ROOT / "tests" / "interpret" / "lua" / "hostile").glob("*.lua")):
        try:
            scripts.append(Program(path.stem, path.stem, read(path.read_text()).runnable))
        except ValueError:
            continue
    quick = Program("quick", "quick", read("function F(a) return a.spec.replicas end").runnable)
    document = deployment(3)
    runner = Runner(Limits(seconds=seconds))
    ended = dict.fromkeys(("answer", "script", "missing", "deadline", "instructions", "memory", "output"), 0)

    async def hostile(program):
        try:
            returned = runner.run(Call(program, "F", [document]))
            if not isinstance(returned, list):
                await returned
            ended["answer"] += 1
        except LuaError as error:
            ended[error.kind] += 1

    async def requests(until):
        latencies = []
        while not until():
            started = time.perf_counter()
            await asyncio.sleep(0)
            runner.run(Call(quick, "F", [document]))
            latencies.append(time.perf_counter() - started)
            await asyncio.sleep(0.001)
        return sorted(latencies)

    end = time.perf_counter() + 5
    alone = await requests(lambda: time.perf_counter() > end)
    tasks = set()

    async def feed():
        for _ in range(2):
            for program in scripts:
                while len(tasks) >= 8:
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                task = asyncio.create_task(hostile(program))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)

    feeding = asyncio.create_task(feed())
    during = await requests(feeding.done)
    runner.close()
    print(
        f"\n{len(scripts)} hostile scripts, twice each, 8 at a time, deadline {seconds:g} s; beside them a request each millisecond, on the same loop:\n"
    )
    print("| | requests | p50 ms | p99 ms | p99.9 ms | longest ms |\n|---|---|---|---|---|---|")
    for title, found in (("alone", alone), ("beside them", during)):
        p50, p99, p999 = (found[int(len(found) * part)] * 1e3 for part in (0.5, 0.99, 0.999))
        print(f"| {title} | {len(found):,} | {p50:.2f} | {p99:.2f} | {p999:.1f} | {found[-1] * 1e3:.0f} |")
    print("\nThey ended: " + ", ".join(f"{kind} {count}" for kind, count in ended.items() if count) + ".")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slow-seconds", type=float, default=0.5)
    given = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, {lua54.LuaRuntime().lua_implementation}, lupa {lupa.__version__}\n")
    runtimes()
    print()
    calls(given.rounds)
    asyncio.run(beside(given.slow_seconds))


if __name__ == "__main__":
    main()
