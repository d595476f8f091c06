"""A peer as a process that answers questions: one JSON line in, one JSON line out, until its input ends."""

import json
import resource
import sys
import time
import traceback


def serve(handlers):
    """Answers each {"do": name, ...} with handlers[name](question). What a library prints must not get among the answers."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = handlers[question["do"]](question)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def timed(work):
    """What work() returns, and its wall and processor seconds (all threads of this process)."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    return result, {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}


def resident():
    """Bytes of physical memory now, or None where the system does not say."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))
    except OSError:
        return None


def peak():
    """The most bytes of physical memory until now."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
