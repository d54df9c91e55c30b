"""What stands between `python` and a stage: it runs the stage, and lets it die where CHAOS says.

A folder with a program called `python` comes first on the PATH of DVC, and that program runs this file with the
arguments of the real one; so the stage needs no code for being killed. CHAOS is STAGE:OPERATION:COUNT, for example
clean:fsync-before:2. The operations:

    fsync, replace, rename      killed before or after (-before, -after) the COUNT-th of the process
    write                       killed by the kernel inside the write that makes a file longer than COUNT bytes
    full                        that write fails instead, as on a full disk, until the end of the process
    dvc                         at the end of the stage, when its outputs are written, DVC is killed: the leader of the
                                session, for a shell may stand between it and the stage
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
        prepare(operation, int(count))
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def prepare(operation: str, count: int) -> None:
    """Set the trap."""
    if operation in ("write", "full"):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (count, count))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if operation == "write" else signal.SIG_IGN)
    elif operation == "dvc":
        atexit.register(os.kill, os.getsid(0), signal.SIGKILL)
    else:
        name, _, when = operation.partition("-")
        real, lock, calls = getattr(os, name), threading.Lock(), [0]

        def deadly(*args: object, **kwargs: object) -> object:
            with lock:
                calls[0] += 1
                fatal = calls[0] == count
            if fatal and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            done = real(*args, **kwargs)
            if fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        setattr(os, name, deadly)


if __name__ == "__main__":
    main()
