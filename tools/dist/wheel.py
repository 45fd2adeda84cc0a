#!/usr/bin/env python3
"""Packs the Python package as a wheel that pip installs without compilers and without a network.

usage: wheel.py VERSION MODULE PROGRAM NOTICES FOLDER

MODULE is nest._core as a shared object, PROGRAM the static nest, which becomes the command `nest` of the environment. The tag says which
Python and which C library the module needs: its name carries the one, the versions of its symbols the other. Written into FOLDER;
the same files at the same SOURCE_DATE_EPOCH give the same wheel.
"""
import base64
import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What every Linux of the manylinux agreement (PEP 600) offers; anything else must be inside.
ALLOWED = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], stdout=subprocess.PIPE, check=True, text=True).stdout


def platform_tag(module):
    """manylinux_2_N_x86_64, N from the newest symbol of the C library that the module asks for."""
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", module)))
    if needed - ALLOWED:
        sys.exit("wheel.py: %s needs %s, which other machines may not have" % (module, ", ".join(sorted(needed - ALLOWED))))
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"\bGLIBC_([0-9.]+)", readelf("-V", module))}
    newest = max(versions)
    return "manylinux_%d_%d_x86_64" % max(newest[:2], (2, 17))


def python_tag(module):
    found = re.search(r"\.cpython-(\d+)-x86_64-linux-gnu\.so$", module)
    if not found:
        sys.exit("wheel.py: %s: the name says no version of Python" % module)
    return "cp" + found.group(1)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def contents(version, module, program, notices, tag):
    """name -> (bytes, executable), of everything but RECORD."""
    info = "nest_planner-%s.dist-info/" % version
    files = {}
    package = os.path.join(ROOT, "python", "nest")
    for name in sorted(os.listdir(package)):
        if name.endswith((".py", ".pyi")) or name == "py.typed":
            files["nest/" + name] = (read(os.path.join(package, name)), False)
    files["nest/" + os.path.basename(module)] = (read(module), True)
    files["nest_planner-%s.data/scripts/nest" % version] = (read(program), True)
    metadata = ("Metadata-Version: 2.1\nName: nest-planner\nVersion: %s\nSummary: Exact planner for distributed training\nLicense: Apache-2.0\n"
                "License-File: LICENSE\nLicense-File: NOTICES\nRequires-Python: >=3.8\nProvides-Extra: trace\nRequires-Dist: torch>=1.13; extra == 'trace'\n"
                "Classifier: Programming Language :: Python :: Implementation :: CPython\nClassifier: Operating System :: POSIX :: Linux\n"
                "Description-Content-Type: text/markdown\n\n" % version)
    files[info + "METADATA"] = (metadata.encode() + read(os.path.join(ROOT, "README.md")), False)
    files[info + "WHEEL"] = (("Wheel-Version: 1.0\nGenerator: nest (%s)\nRoot-Is-Purelib: false\nTag: %s\n" % (version, tag)).encode(), False)
    files[info + "LICENSE"] = (read(os.path.join(ROOT, "LICENSE")), False)
    files[info + "NOTICES"] = (read(notices), False)
    files[info + "top_level.txt"] = (b"nest\n", False)
    return info, files


def main(arguments):
    if len(arguments) != 5:
        sys.exit(__doc__)
    version, module, program, notices, folder = arguments
    tag = "%s-%s-%s" % (python_tag(module), python_tag(module), platform_tag(module))
    info, files = contents(version, module, program, notices, tag)
    record = ""
    for name, (data, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (name, digest, len(data))
    files[info + "RECORD"] = ((record + info + "RECORD,,\n").encode(), False)

    moment = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]  # a zip begins in 1980
    path = os.path.join(folder, "nest_planner-%s-%s.whl" % (version, tag))
    ordered = sorted(files, key=lambda name: (name.startswith(info), name))  # as the standard wishes, its description last
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name in ordered:
            data, executable = files[name]
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            wheel.writestr(entry, data)
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
