"""Compiles the shaders while the package is built; everything else is in pyproject.toml."""

import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithShaders(build_py):
    def run(self) -> None:
        subprocess.check_call([sys.executable, str(Path(__file__).parent / "shaders" / "build.py")])
        super().run()


setup(cmdclass={"build_py": BuildWithShaders})
