"""A `python` that runs a stage, and kills it or fails its writes at the point that CHAOS names.

A folder with a program called `python` comes first on the PATH of DVC. That program runs this file with the arguments
of the real one, so stages contain no code for being killed. CHAOS is STAGE:OPERATION:COUNT, for example
clean:fsync-before:2. The operations:

    fsync, replace, rename      the process is killed before or after (-before, -after) its COUNT-th call
    write                       the kernel kills it inside the write that makes a file longer than COUNT bytes
    full                        that write fails instead, as on a full disk, until the process ends
    dvc                         when the stage has written its outputs and ends, DVC is killed. It is found as the
                                leader of the session, because a shell may be between DVC and the stage
"""

import atexit
import os
import resource
import runpy
import signal
import sys
import threading
from pathlib import Path


def main() -> None:
    """Run the module that the arguments name, as python -m does."""
    module, sys.argv = sys.argv[2], sys.argv[2:]
    sys.path[0] = str(Path.cwd())
    stage, operation, count = (os.environ.get("CHAOS") or "::").split(":")
    if operation and module == f"stages.{stage.replace('-', '_')}":
        set_trap(operation, int(count))
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def set_trap(operation: str, count: int) -> None:
    """Make this process end, or fail to write, at one of its operations."""
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
    """Replace a function of os by one that kills this process before or after its count-th call."""
    real, lock, calls = getattr(os, name), threading.Lock(), [0]

    def call(*args: object, **kwargs: object) -> object:
        with lock:
            calls[0] += 1
            fatal = calls[0] == count
        if fatal and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **kwargs)
        if fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(os, name, call)


if __name__ == "__main__":
    main()
