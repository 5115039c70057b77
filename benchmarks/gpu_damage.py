"""Damage to the host memory of a parked job: is each case noticed when the memory is back on the GPU?"""

import json
import os
import subprocess
import sys
from typing import Any

from benchmarks.gpu_bench import Bench
from rota.agent.pages_library import with_pages_library
from rota.park.facts import parking_facts
from rota.park.park_environment import parking_environment

SCRIPT = '''
"""Parks itself many times, changes its host memory in between, and counts how often that is noticed."""
import ctypes, json, os, random, sys, time
import torch
gib, cases = int(sys.argv[1]), int(sys.argv[2])
pages, saver = ctypes.CDLL(os.environ["ROTA_PARK_PAGES"]), ctypes.CDLL(os.environ["ROTA_PARK_LIBRARY"])
pages.rota_pages_end.restype = ctypes.c_long
held = [torch.randint(-2**31, 2**31, (1 << 25,), dtype=torch.int32, device="cuda") for _ in range(8 * gib)]  # 128 MiB each
def regions():
    found = set()
    for line in open("/proc/self/maps"):
        words = line.split()
        begin, end = (int(each, 16) for each in words[0].split("-"))
        if len(words) == 5 and words[1] == "rw-p" and end - begin >= 64 << 20:
            found.add((begin, end))
    return found
def move(name):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    assert pages.rota_pages_begin()
    getattr(saver, name)(None)
    damaged = pages.rota_pages_end()
    return damaged, time.perf_counter() - begin
before = regions()
move("tms_pause")
blocks = sorted(regions() - before)
pages.rota_pages_pin(); pages.rota_pages_wait()
assert move("tms_resume")[0] == 0
random.seed(1)
noticed, false, seconds = 0, 0, []
for case in range(2 * cases):
    out = move("tms_pause")[1]
    harm = case % 2
    if harm:
        begin, end = random.choice(blocks)
        size = random.choice((1, 1, 8, 4096, 1 << 20))
        at = random.randrange(begin, end - 2 * size)
        if size < 4096:  # bits flip
            ctypes.memset(at, ctypes.string_at(at, 1)[0] ^ 1 << random.randrange(8), 1)
        elif random.random() < 0.5:  # a page of zeros
            ctypes.memset(at, 0, size)
        else:  # two pages change places
            first, second = ctypes.string_at(at, size), ctypes.string_at(at + size, size)
            ctypes.memmove(at, second, size); ctypes.memmove(at + size, first, size)
    damaged, back = move("tms_resume")
    noticed += harm and damaged > 0
    false += not harm and damaged != 0
    seconds.append((out, back))
print(json.dumps({"blocks": len(blocks), "cases": cases, "noticed": noticed, "false_alarms": false,
    "out_seconds": sorted(each[0] for each in seconds)[len(seconds) // 2],
    "back_seconds": sorted(each[1] for each in seconds)[len(seconds) // 2]}))
'''


def damage(bench: Bench, gib: int = 4, cases: int = 100) -> dict[str, Any]:
    """Damage the memory of one process so many times, and leave it alone as many times."""
    script = bench.folder / "damage.py"
    script.write_text(SCRIPT)
    command, env = [sys.executable, str(script), str(gib), str(cases)], bench.variables()
    facts = with_pages_library(parking_facts(command, env, "/", wanted=True, gpus=1, real_gpus=True))
    if not facts.pages_library:
        raise RuntimeError(f"there is no library for host memory: {facts.pages_problem}")
    added = parking_environment(facts, env)
    run = {**os.environ, **env, **{name: value for name, value in added.items() if name not in ("ROTA_PARK", "PYTHONPATH")}}
    done = subprocess.run(command, env=run, capture_output=True, text=True, timeout=max(bench.left(), 1.0), check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-800:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"gib": gib, **found}
