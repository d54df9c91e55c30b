"""What a process asks of the machine."""

import ctypes
import subprocess
import sys

from bukva.core.machine import keep_freed_memory

PROGRAM = """
import resource
from bukva.core.machine import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tensors = [bytearray(7 << 20) for _ in range(11)]
    del tensors
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(), faults())
keep_freed_memory()
print(faults(), faults())
"""


def test_memory_that_was_freed_is_used_again_without_asking_the_kernel():
    printed = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    first, again, _, kept = map(int, printed.split())
    assert again > first / 2
    assert kept < first / 10


def test_a_library_without_mallopt_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    keep_freed_memory()
