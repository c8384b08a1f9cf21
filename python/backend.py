# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel of the package by the standard library alone (PEP 517), so that `pip install ./python` needs no network and no
setuptools. The wheel notes where the program lies that `make release` built beside it."""

import base64
import hashlib
import os
import re
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "qsync"


def _version():
    with open(os.path.join(HERE, NAME, "__init__.py"), encoding="utf-8") as file:
        return re.search(r'^__version__ = "(.*)"$', file.read(), re.M).group(1)


def _built():
    program = os.path.join(os.path.dirname(HERE), "build", "release", "qsync")
    return "# SPDX-License-Identifier: Apache-2.0\n# Where the program was that was built beside this package.\nPROGRAM = %r\n" % program


def _dist_info():
    return "%s-%s.dist-info" % (NAME, _version())


def _metadata_files():
    return {
        "METADATA": "Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: Training over unlike devices, from Python\n"
        "License: Apache-2.0\nRequires-Python: >=3.9\nRequires-Dist: numpy\n" % (NAME, _version()),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: %s\nRoot-Is-Purelib: true\nTag: py3-none-any\n" % NAME,
    }


def _wheel_write(folder, contents):
    """A wheel of texts by their names, with the list of sums that pip checks them by."""
    name = "%s-%s-py3-none-any.whl" % (NAME, _version())
    record = _dist_info() + "/RECORD"
    rows = []
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, text in contents.items():
            data = text.encode()
            wheel.writestr(path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append("%s,sha256=%s,%d\n" % (path, digest, len(data)))
        wheel.writestr(record, "".join(rows) + record + ",,\n")
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    contents = {}
    for file in sorted(os.listdir(os.path.join(HERE, NAME))):
        if file.endswith(".py") or file == "py.typed":
            with open(os.path.join(HERE, NAME, file), encoding="utf-8") as source:
                contents["%s/%s" % (NAME, file)] = source.read()
    contents[NAME + "/_built.py"] = _built()
    for file, text in _metadata_files().items():
        contents["%s/%s" % (_dist_info(), file)] = text
    return _wheel_write(wheel_directory, contents)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The package stays where it is: the wheel holds its folder's path alone."""
    contents = {NAME + ".pth": HERE + "\n"}
    for file, text in _metadata_files().items():
        contents["%s/%s" % (_dist_info(), file)] = text
    return _wheel_write(wheel_directory, contents)


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("the package is part of a source tree; build a wheel")
