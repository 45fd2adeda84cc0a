"""Builds the Python package: `pip install --no-build-isolation --no-index .` needs the network for nothing.

CMake does the work; CMAKE_ARGS in the environment is passed on to it.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = os.path.dirname(os.path.abspath(__file__))
SCRATCH = os.path.join("build", "pip")


def version():
    with open(os.path.join(ROOT, "CMakeLists.txt")) as file:
        return re.search(r"project\(nest VERSION ([0-9.]+)", file.read()).group(1)


class CMakeBuild(build_ext):
    """nest._core as CMake builds it."""

    def build_extension(self, ext):
        folder = os.path.join(ROOT, SCRATCH, "cmake")
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        subprocess.check_call(["cmake", "-S", ROOT, "-B", folder, *generator, "-DCMAKE_BUILD_TYPE=Release", "-DNEST_BUILD_TESTS=OFF",
                               "-DPython_EXECUTABLE=" + sys.executable, *shlex.split(os.environ.get("CMAKE_ARGS", ""))])
        subprocess.check_call(["cmake", "--build", folder, "--target", "nest-python", "--parallel", str(os.cpu_count() or 1)])
        target = os.path.abspath(self.get_ext_fullpath(ext.name))
        built = os.path.join(folder, "python", "nest", os.path.basename(target))
        if not os.path.exists(built):
            raise SystemExit("nest._core was not built: Python's headers or pybind11 are missing (Debian: python3-dev pybind11-dev python3-pybind11)")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(built, target)


os.makedirs(os.path.join(ROOT, SCRATCH), exist_ok=True)
setup(
    name="nest-planner",
    version=version(),
    description="Exact planner for distributed training",
    license="Apache-2.0",
    python_requires=">=3.8",
    packages=["nest"],
    package_dir={"": "python"},
    package_data={"nest": ["py.typed", "*.pyi"]},
    ext_modules=[Extension("nest._core", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
    options={"egg_info": {"egg_base": SCRATCH}, "build": {"build_base": SCRATCH}},
    zip_safe=False,
)
