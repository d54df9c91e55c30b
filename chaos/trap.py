"""Run a stage, and kill it or make its writes fail at the point that the environment variable CHAOS names.

A folder with a program called `python` comes first on DVC's PATH. This program runs trap.py with the arguments of the
real `python`, so stages need no code for fault injection. CHAOS is STAGE:OPERATION:COUNT, for example
clean:fsync-before:2. The operations:

    fsync, replace, rename      kill the process before or after (-before, -after) the COUNT-th call
    write                       let the kernel kill the process inside the write that makes a file longer than COUNT
                                bytes
    full                        let every such write fail, as on a full disk
    dvc                         kill DVC when the stage has written its outputs and ends. DVC is found as the leader of
                                the session, because a shell may be between DVC and the stage
"""

import atexit
import itertools
import os
import resource
import runpy
import signal
import sys
from pathlib import Path


def set_trap(operation: str, count: int) -> None:
    """Kill this process, or let its writes fail, at an operation that CHAOS can name."""
    if operation in ("write", "full"):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (count, count))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if operation == "write" else signal.SIG_IGN)
    elif operation == "dvc":
        atexit.register(os.kill, os.getsid(0), signal.SIGKILL)
    else:
        name, when = operation.split("-")
        kill_at_call(name, when, count)


def kill_at_call(name: str, when: str, count: int) -> None:
    """Replace a function of module os so that this process is killed before or after its `count`-th call."""
    real, numbers = getattr(os, name), itertools.count(1)

    def call(*args: object, **kwargs: object) -> object:
        fatal = next(numbers) == count  # safe in threads
        if fatal and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **kwargs)
        if fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(os, name, call)


if __name__ == "__main__":
    # runs the module that the arguments name, as `python -m` does
    module, sys.argv = sys.argv[2], sys.argv[2:]
    sys.path[0] = str(Path.cwd())
    stage, operation, count = (os.environ.get("CHAOS") or "::").split(":")
    if operation and module == f"stages.{stage.replace('-', '_')}":
        set_trap(operation, int(count))
    runpy.run_module(module, run_name="__main__", alter_sys=True)
