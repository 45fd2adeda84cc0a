#!/usr/bin/env python3
"""What is linked into the files of `make dist`: licence notices, and a bill of materials (CycloneDX 1.5).

usage: components.py notices PART        PART: program or wheel
       components.py sbom VERSION FILE…  the bill of materials of the named files

Versions and texts are those of the packages that this machine compiled with: dpkg knows them, and /usr/share/doc has the notices.
"""
import datetime
import hashlib
import json
import os
import subprocess
import sys
import urllib.parse
import uuid

PARTS = ("program", "wheel")
WHEEL_ONLY = {"pybind11"}  # the wheel holds the program too

# name, package, licence (SPDX), website
COMPONENTS = [
    ("fmt", "libfmt-dev", "MIT", "https://fmt.dev"),
    ("yaml-cpp", "libyaml-cpp-dev", "MIT", "https://github.com/jbeder/yaml-cpp"),
    ("pugixml", "libpugixml-dev", "MIT", "https://pugixml.org"),
    ("SQLite", "libsqlite3-dev", "blessing", "https://sqlite.org"),
    ("JSON for Modern C++", "nlohmann-json3-dev", "MIT", "https://json.nlohmann.me"),
    ("toml++", "libtomlplusplus-dev", "MIT", "https://marzer.github.io/tomlplusplus"),
    ("CLI11", "libcli11-dev", "BSD-3-Clause", "https://github.com/CLIUtils/CLI11"),
    ("pybind11", "pybind11-dev", "BSD-3-Clause", "https://pybind11.readthedocs.io"),
    ("GNU C Library", "libc6-dev", "LGPL-2.1-or-later", "https://www.gnu.org/software/libc"),
    ("GNU C++ Library", "", "GPL-3.0-or-later WITH GCC-exception-3.1", "https://gcc.gnu.org"),
]


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.strip()


def package_of(package):
    """The C++ library is the compiler's: its package carries the compiler's number."""
    if package:
        return package
    compiler = os.environ.get("CXX", "c++")
    archive = os.path.realpath(output(compiler, "-print-file-name=libstdc++.a"))
    return output("dpkg", "-S", archive).split(":")[0]


def version_of(package):
    return output("dpkg-query", "-W", "-f=${Version}", package)


def components_of(part):
    return [row for row in COMPONENTS if part == "wheel" or row[0] not in WHEEL_ONLY]


def notices(part):
    print("nest is free software under the Apache License 2.0 (LICENSE). This file of it contains parts of others,\n"
          "in the versions of Debian's packages named below, whose notices follow.\n")
    print("The GNU C Library is linked into the program under the LGPL: whoever wants to link it with another version builds nest\n"
          "from its sources (`make dist`), which are free.\n")
    for name, package, licence, website in components_of(part):
        package = package_of(package)
        with open("/usr/share/doc/%s/copyright" % package, encoding="utf-8", errors="replace") as file:
            text = file.read()
        print("=" * 100)
        print("%s (%s %s), %s\n%s\n" % (name, package, version_of(package), licence, website))
        print(text.rstrip() + "\n")


def reference(package):
    return "pkg:deb/debian/%s@%s?arch=amd64" % tuple(urllib.parse.quote(word) for word in (package, version_of(package)))


def licence_entry(licence):
    return {"expression": licence} if " " in licence else {"license": {"id": licence}}


def sbom(version, files):
    moment = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    components, depends = [], []
    for name, package, licence, website in COMPONENTS:
        found = reference(package_of(package))
        components.append({
            "type": "library", "bom-ref": found, "name": name, "version": version_of(package_of(package)), "purl": found,
            "licenses": [licence_entry(licence)], "externalReferences": [{"type": "website", "url": website}],
        })
        depends.append({"ref": found, "dependsOn": []})
    for path in files:
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        name = os.path.basename(path)
        part = "wheel" if name.endswith(".whl") else "program"
        components.append({"type": "file", "bom-ref": name, "name": name, "version": version, "hashes": [{"alg": "SHA-256", "content": digest}],
                           "licenses": [{"license": {"id": "Apache-2.0"}}]})
        depends.append({"ref": name, "dependsOn": [reference(package_of(row[1])) for row in components_of(part)]})
    names = [os.path.basename(path) for path in files]
    document = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": "urn:uuid:" + str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components, sort_keys=True))),
        "metadata": {
            "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": "nest", "name": "nest", "version": version, "licenses": [{"license": {"id": "Apache-2.0"}}]},
        },
        "components": components,
        "dependencies": [{"ref": "nest", "dependsOn": names}] + depends,
    }
    json.dump(document, sys.stdout, indent=2)
    print()


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "notices" and arguments[1] in PARTS:
        notices(arguments[1])
    elif len(arguments) >= 3 and arguments[0] == "sbom":
        sbom(arguments[1], arguments[2:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
