# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package share: a temporary folder for each test, a small set of arrays, and a model as a file."""

import json
import os
import tempfile
import unittest

import numpy

NET = {
    "schema": "qsync/graph/2",
    "name": "net",
    "unit": "images",
    "inputs": [{"name": "x", "type": "u8", "extents": [8, 8, 2]}],
    "target": {"kind": "class", "classes": 3},
    "operators": [
        {"name": "conv", "op": "conv2d", "inputs": ["x"], "outputs": 4, "kernel": [3, 3], "padding": [1, 1]},
        {"name": "norm", "op": "batch_norm", "inputs": ["conv"]},
        {"name": "relu", "op": "relu", "inputs": ["norm"]},
        {"name": "flatten", "op": "flatten", "inputs": ["relu"]},
        {"name": "fc", "op": "linear", "inputs": ["flatten"], "outputs": 3, "bias": True},
    ],
    "output": "fc",
}


class InFolder(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self._before = os.getcwd()
        os.chdir(self._folder.name)
        with open("net.json", "w", encoding="utf-8") as file:
            json.dump(NET, file)
        random = numpy.random.default_rng(5)
        y = random.integers(0, 3, 96)
        x = random.integers(0, 60, (96, 2, 8, 8)).astype("u1")  # a bright row says the class
        for image, label in zip(x, y):
            image[:, 2 * label : 2 * label + 2] += 150
        numpy.savez_compressed("set.npz", x=x, y=y)
        self.x, self.y = x, y

    def tearDown(self):
        os.chdir(self._before)
        self._folder.cleanup()
