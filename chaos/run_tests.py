"""Faults that tests of other folders inject: each test is one try."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from chaos.project import ROOT
from chaos.setup import Setup


def run_tests(*paths: str) -> Callable[[Setup, int], list[str]]:
    """The function that runs the tests of these files."""

    def run(_: Setup, __: int) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *paths]
            subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            cases = ElementTree.parse(report).iter("testcase")
            return [_verdict(case) for case in cases if case.find("skipped") is None]

    return run


def _verdict(case: ElementTree.Element) -> str:
    broken = case.find("failure") is not None or case.find("error") is not None
    return f"{case.get('classname')}.{case.get('name')}" if broken else ""
