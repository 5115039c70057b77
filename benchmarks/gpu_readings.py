"""What NVML tells of the GPUs of this machine, what a reading costs, and which processes it names.

    .venv/bin/python -m benchmarks.gpu_readings --seconds 10

Run it beside a job. A scheduler reads once a second while jobs run.
"""

import argparse
import time

from rota.agent.gpu_readings import GpuReader
from rota.agent.gpus import find_gpus
from rota.agent.host_memory import available_gib, total_gib
from rota.agent.processes import attempt_id_of


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=10.0)
    until = time.monotonic() + arguments.parse_args().seconds
    for gpu in find_gpus():
        print(f"{gpu.index}  {gpu.accelerator}  {gpu.product}  {gpu.memory_gib:.1f} GiB  {gpu.uuid}")
    print(f"host memory {total_gib()} GiB, available {available_gib()} GiB")
    reader = GpuReader()
    took_ms = []
    while time.monotonic() < until:
        began_s, cpu_s = time.perf_counter(), time.process_time()
        readings = reader.read()
        took_ms.append((1e3 * (time.perf_counter() - began_s), 1e3 * (time.process_time() - cpu_s)))
        if not readings:
            print("NVML told nothing")
        for uuid, reading in readings.items():
            lives = {
                pid: (gib, attempt_id_of(pid) or "not a job of Rota's, or of another namespace")
                for pid, gib in (reading.processes or {}).items()
            }
            print(f"{uuid}  {reading}  {lives}")
        time.sleep(1.0)
    wall, cpu = (sorted(column)[len(column) // 2] for column in zip(*took_ms, strict=True))
    print(f"{len(took_ms)} readings; median {wall:.1f} ms, of these {cpu:.1f} ms of CPU time; the first {took_ms[0][0]:.1f} ms")


if __name__ == "__main__":
    main()
