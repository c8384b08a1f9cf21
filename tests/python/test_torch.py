# SPDX-License-Identifier: Apache-2.0
"""The round trip of a PyTorch module: exported as it is, trained, and filled with what came of it, bit by bit."""

import unittest
from pathlib import Path

import numpy
import qsync
import torch
from support import InFolder


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 4, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(4)
        self.fc = torch.nn.Linear(4 * 8 * 8, 3)

    def forward(self, x):
        return self.fc(torch.flatten(torch.relu(self.norm(self.conv(x))), 1))


def bits(module):
    return {name: tensor.detach().numpy().tobytes() for name, tensor in module.state_dict().items()}


JOB = {"batch": 16, "rate": 0.02, "no_augmentation": True}


class RoundTrip(InFolder):
    def setUp(self):
        super().setUp()
        torch.manual_seed(7)
        self.module = Net()
        with torch.no_grad():
            self.module.norm.running_mean += torch.randn(4)
            self.module.norm.running_var *= 1.5

    def test_weights_go_and_come_back_bit_by_bit(self):
        start = qsync.save_weights(self.module, "start.safetensors")
        qsync.train("net.json", "npz:set.npz", weights=start, epochs=0, out="run", **JOB)
        other = Net()
        report = qsync.load_into(other, "run")
        self.assertEqual(bits(other), bits(self.module))
        self.assertEqual(report.counters, ["norm.num_batches_tracked"])
        self.assertIn("norm.running_var", report.loaded)

    def test_trained_module_computes_what_was_evaluated(self):
        start = qsync.save_weights(self.module, "start.safetensors")
        before = {name: parameter for name, parameter in self.module.named_parameters()}
        result = qsync.train("net.json", "npz:set.npz", weights=start, epochs=4, out="run", **JOB)
        qsync.load_into(self.module, "run")
        self.assertTrue(all(before[name] is parameter for name, parameter in self.module.named_parameters()))  # the very parameters
        self.assertEqual(int(self.module.norm.num_batches_tracked), result["steps"])
        self.module.eval()
        tests = slice(96 - 10, 96)  # the last tenth
        with torch.no_grad():
            logits = self.module(torch.from_numpy(self.x[tests].astype("f4") / 255))
        loss = float(torch.nn.functional.cross_entropy(logits, torch.from_numpy(self.y[tests])))
        # Sums of up to 256 products in another order, each within 2^-24 of 1: the losses agree to about 1e-5.
        self.assertAlmostEqual(loss, result["test_loss"], delta=2e-5 * max(1, loss))

    def test_names_are_compared_before_anything_changes(self):
        tensors = {name: values.copy() for name, values in self.tensors().items()}
        before = bits(self.module)
        del tensors["fc.bias"]
        tensors["tail.weight"] = numpy.zeros(3, "f4")
        tensors["norm.weight"] = numpy.zeros(5, "f4")
        qsync.write_tensors("other.safetensors", tensors)
        with self.assertRaises(qsync.NamesDiffer) as caught:
            qsync.load_into(self.module, "other.safetensors")
        self.assertEqual(caught.exception.missing, ["fc.bias"])
        self.assertEqual(caught.exception.superfluous, ["tail.weight"])
        self.assertIn("norm.weight (4,), in the run (5,)", str(caught.exception))
        self.assertEqual(bits(self.module), before)

    def tensors(self):
        qsync.save_weights(self.module, "own.safetensors")
        return qsync.read_tensors("own.safetensors")

    def test_shared_tensors_are_there_once(self):
        tied = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        tied[1].weight = tied[0].weight
        qsync.save_weights(tied, "tied.safetensors")
        self.assertEqual(set(qsync.read_tensors("tied.safetensors")), {"0.weight", "0.bias", "1.bias"})
        with torch.no_grad():
            tied[0].weight.zero_()
        qsync.load_into(tied, "tied.safetensors")
        self.assertGreater(float(tied[1].weight.abs().sum()), 0)

    def test_export_leaves_the_module_as_it_was(self):
        self.module.eval()
        before = bits(self.module)
        path = qsync.from_torch(self.module, torch.randn(2, 2, 8, 8), "net.onnx")
        self.assertEqual(bits(self.module), before)
        self.assertFalse(self.module.training or self.module.norm.training)
        data = Path(path).read_bytes()
        for name in self.tensors():  # nothing folded, nothing renamed
            self.assertIn(name.encode(), data)
        self.assertTrue(qsync.from_torch(self.module, torch.randn(1, 2, 8, 8)).exists())


if __name__ == "__main__":
    unittest.main()
