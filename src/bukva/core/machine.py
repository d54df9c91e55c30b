"""The properties of this machine that timings and results depend on; no name that identifies it."""

import os
import platform
from pathlib import Path
from typing import Any

CPUINFO = Path("/proc/cpuinfo")  # of Linux
BF16_FLAGS = {"avx512_bf16": "AVX-512 BF16", "amx_bf16": "AMX"}


def machine() -> dict[str, Any]:
    """Processor, cores and bf16 instructions."""
    try:
        lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = facts.get("flags", "").split()
    return {
        "cpu": facts.get("model name", platform.processor() or platform.machine()),
        "cores": os.cpu_count(),
        "bf16": [name for flag, name in BF16_FLAGS.items() if flag in flags],
    }
