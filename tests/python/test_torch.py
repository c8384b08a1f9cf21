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


class Grey(torch.nn.Module):
    """Three channels to the two that the net takes."""

    def __init__(self):
        super().__init__()
        self.mix = torch.nn.Conv2d(3, 2, 1)

    def forward(self, x):
        return self.mix(x)


class Tagger(torch.nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.table = torch.nn.Embedding(50, 16)
        self.out = torch.nn.Linear(16, outputs)

    def forward(self, ids):
        return self.out(torch.relu(self.table(ids)))


class Recurrent(torch.nn.Module):
    """From the last states of both directions, or the mean of all states."""

    def __init__(self, kind, last):
        super().__init__()
        self.table, self.out, self.last = torch.nn.Embedding(50, 8), torch.nn.Linear(12, 4), last
        self.net = getattr(torch.nn, kind)(8, 6, 2, batch_first=True, bidirectional=True)

    def forward(self, ids):
        states, last = self.net(self.table(ids))
        last = last[0] if isinstance(last, tuple) else last
        return self.out(torch.cat([last[-2], last[-1]], 1) if self.last else states.mean(1))


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.out = torch.nn.Linear(6, 8), torch.nn.Linear(3, 8), torch.nn.Linear(8, 2)

    def forward(self, x, z):
        return self.out(torch.relu(self.left(x) + self.right(z)))


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

    def test_exported_weights_come_back_bit_by_bit(self):
        images = torch.nn.Sequential(Grey(), Net())  # three channels are images, which qsync lays out in another order
        path = qsync.from_torch(images, torch.randn(1, 3, 8, 8), "net.onnx")
        x = numpy.repeat(self.x[:, :1], 3, axis=1)
        numpy.savez("images.npz", x=x, y=self.y)
        qsync.train(path, "npz:images.npz", epochs=0, out="run", **JOB)
        other = torch.nn.Sequential(Grey(), Net())
        qsync.load_into(other, "run")
        self.assertEqual(bits(other), bits(images))

    def test_exported_and_trained(self):
        images = torch.nn.Sequential(Grey(), Net())
        path = qsync.from_torch(images, torch.randn(1, 3, 8, 8), "net.onnx")
        x = numpy.repeat(self.x[:, :1], 3, axis=1)
        numpy.savez("images.npz", x=x, y=self.y)
        result = qsync.train(path, "npz:images.npz", epochs=3, out="run", **JOB)
        qsync.load_into(images, "run")
        images.eval()
        with torch.no_grad():
            logits = images(torch.from_numpy(x[86:].astype("f4") / 255))
        loss = float(torch.nn.functional.cross_entropy(logits, torch.from_numpy(self.y[86:])))
        self.assertAlmostEqual(loss, result["test_loss"], delta=2e-5 * max(1, loss))

    def test_another_head(self):
        images = torch.nn.Sequential(Grey(), Net())
        path = qsync.from_torch(images, torch.randn(1, 3, 8, 8), "net.onnx")
        numpy.savez("images.npz", x=numpy.repeat(self.x[:, :1], 3, axis=1), y=self.y)
        result = qsync.train(path, "npz:images.npz", head=5, dropout=0.1, epochs=0, out="run", **JOB)
        self.assertIn("is new, of 5 outputs", result.log)
        tensors = qsync.weights("run")
        self.assertEqual(tensors["1.fc.weight"].shape, (5, 256))
        self.assertEqual(tensors["1.conv.weight"].tobytes(), images[1].conv.weight.detach().numpy().tobytes())  # the file's
        with self.assertRaises(qsync.NamesDiffer) as caught:
            qsync.load_into(images, "run")
        self.assertEqual(len(caught.exception.shapes), 2)
        self.assertEqual(caught.exception.missing + caught.exception.superfluous, [])

    def test_kinds_of_samples(self):
        """Features, numbers to be learned, ids, tags, spans, recurrent networks, two inputs: each is exported, trained and filled again, and
        computes the same."""
        random = numpy.random.default_rng(3)
        x = random.standard_normal((160, 6)).astype("f4")
        sums = (x @ random.standard_normal((6, 2))).astype("f4")
        ids = random.integers(0, 40, (160, 12))
        where = random.integers(0, 12, 160)
        marked = ids.copy()
        marked[numpy.arange(160), where] = 45

        def features(outputs):
            return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, outputs))

        numbers, hidden = torch.zeros(1, 6), torch.zeros(1, 12, dtype=torch.long)
        cases = {
            "classes": (features(2), numbers, {"x": x, "y": sums.argmax(1)}, {}),
            "numbers": (features(2), numbers, {"x": x, "y": sums}, {"loss": "mse"}),
            "tags": (Tagger(4), hidden, {"ids": ids, "y": ids % 4}, {"rate": 0.3}),
            "spans": (Tagger(2), hidden, {"ids": marked, "y": numpy.stack([where, where], 1)}, {"rate": 0.3, "loss": "span"}),
            "lstm": (Recurrent("LSTM", False), hidden, {"ids": marked, "y": where // 3}, {"rate": 0.3}),
            "gru": (Recurrent("GRU", True), hidden, {"ids": marked, "y": where // 3}, {"rate": 0.3}),
            "two": (Two(), (numbers, torch.zeros(1, 3)), {"x": x, "z": x[:, :3], "y": sums.argmax(1)}, {}),
        }
        for name, (module, example, arrays, how) in cases.items():
            with self.subTest(name):
                lines = []
                path = qsync.from_torch(module, example, name + ".onnx")
                numpy.savez(name + ".npz", **arrays)
                job = {**JOB, "epochs": 6, **how}
                result = qsync.train(path, "npz:%s.npz" % name, out=name, progress=lines.append, **job)
                losses = [line["training_loss"] for line in lines if line["type"] == "epoch"]
                self.assertLess(losses[-1], losses[0])
                qsync.load_into(module, name)
                module.eval()
                with torch.no_grad():
                    outputs = module(*(torch.from_numpy(values[144:]) for key, values in arrays.items() if key != "y"))
                y = torch.from_numpy(arrays["y"][144:])
                if name == "numbers":  # half the square, of all numbers of a sample
                    loss = 0.5 * float(((outputs - y) ** 2).sum(1).mean())
                elif name == "tags":
                    loss = float(torch.nn.functional.cross_entropy(outputs.reshape(-1, 4), y.reshape(-1)))
                elif name == "spans":  # the mean of first and last
                    loss = sum(float(torch.nn.functional.cross_entropy(outputs[..., i], y[:, i])) for i in (0, 1)) / 2
                else:
                    loss = float(torch.nn.functional.cross_entropy(outputs, y))
                self.assertAlmostEqual(loss, result["test_loss"], delta=2e-5 * max(1, loss))


if __name__ == "__main__":
    unittest.main()
