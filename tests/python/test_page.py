# SPDX-License-Identifier: Apache-2.0
"""The lines of docs/pytorch.md, run as they stand."""

import os
import re
import shutil
import unittest

from support import InFolder

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "pytorch.md")


class Page(InFolder):
    def test_round_trip(self):
        with open(PAGE, encoding="utf-8") as file:
            blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
        self.assertLessEqual(len(blocks[0].splitlines()), 25)
        space = {}
        exec(compile(blocks[0], PAGE, "exec"), space)
        self.assertGreater(space["accuracy"], 0.9)
        self.assertAlmostEqual(space["accuracy"], space["result"]["test_accuracy"])
        for block in blocks[1:] if shutil.which("mpirun") else []:  # each goes on where the one before it ended
            exec(compile(block, PAGE, "exec"), space)
        self.assertGreater(space["accuracy"], 0.9)


if __name__ == "__main__":
    unittest.main()
