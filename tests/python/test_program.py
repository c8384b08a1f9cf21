# SPDX-License-Identifier: Apache-2.0
"""Verbs as functions: what they return, what they tell on the way, and how failures and interruptions come out."""

import os
import shutil
import signal
import threading
import time
import unittest
from pathlib import Path

import numpy
import qsync
from support import InFolder

JOB = {"batch": 16, "rate": 0.02, "no_augmentation": True, "seed": 3}


class Verbs(InFolder):
    def test_train_and_evaluate(self):
        lines = []
        result = qsync.train("net.json", "npz:set.npz", epochs=3, out="run", mean=0.3, deviation=[0.25, 0.5], progress=lines.append, **JOB)
        self.assertEqual(result["steps"], 3 * 6)
        self.assertEqual(result.path, Path("run"))
        epochs = [line for line in lines if line["type"] == "epoch"]
        self.assertEqual([line["epoch"] for line in epochs], [1, 2, 3])
        self.assertLess(epochs[2]["training_loss"], epochs[0]["training_loss"])
        self.assertAlmostEqual(epochs[2]["test_loss"], result["test_loss"], places=6)
        own = qsync.evaluate("run")  # the run's data, normalised as there
        self.assertAlmostEqual(own["loss"], result["test_loss"], places=5)
        self.assertNotEqual(own["loss"], qsync.evaluate("run/weights.safetensors", scale=1)["loss"])
        again = []
        qsync.train("net.json", "npz:set.npz", epochs=1, out="run", progress=again.append, **JOB)
        self.assertEqual([line["epoch"] for line in again if line["type"] == "epoch"], [1])  # none of the run before

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_profile_plan_train_on_two_ranks(self):
        one = {"role": "training", "backend": "cpu", "cpu": {"threads": 1}, "count": 1, "formats": ["fp32", "bf16"]}
        cluster = {"classes": {"big": one, "weak": {**one, "role": "inference"}}}
        short = {"repetitions": 2, "statistics_iterations": 2, "conversion_seconds": 0.1}
        qsync.profile("net.json", "npz:set.npz", "profile.json", cluster=cluster, batch=8, **short)
        plan = qsync.plan("profile.json", "npz:set.npz", "plan.json", cluster=cluster, epochs=1, no_augmentation=True)
        self.assertEqual(plan["job"]["model"], "net.json")
        self.assertTrue(plan.path.exists())
        result = qsync.train(plan="plan.json", cluster=cluster, out="two")
        self.assertEqual(len(result["ranks"]), 2)
        for rank in result["ranks"]:
            self.assertEqual(rank["reserved_bytes"], rank["predicted_bytes"])

    def test_inspect(self):
        self.assertEqual(qsync.inspect("net.json+head=7")["nodes"][-2]["shape"], [1, 7])

    def test_failures_are_the_programs_lines(self):
        with self.assertRaises(qsync.UsageError) as caught:
            qsync.train("resnet9", "shapes")
        self.assertEqual(caught.exception.exit_code, 2)
        self.assertTrue(str(caught.exception).startswith('no model "resnet9"'), str(caught.exception))
        with self.assertRaises(qsync.Error) as caught:
            qsync.train("net.json", "npz:none.npz")
        self.assertIn("none.npz", str(caught.exception))
        with self.assertRaises(qsync.NumericFailure):
            qsync.train("net.json", "npz:set.npz", epochs=20, batch=16, rate=1e30)

    def test_interruption_passes_on(self):
        def interrupt(line):
            raise KeyboardInterrupt

        begin = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            qsync.train("net.json", "npz:set.npz", epochs=100000, progress=interrupt, **JOB)
        self.assertLess(time.monotonic() - begin, 60)
        if hasattr(signal, "pthread_kill"):
            timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                qsync.train("net.json", "npz:set.npz", epochs=1000000, **JOB)
            timer.join()

    def test_missing_program(self):
        said = os.environ["QSYNC"]
        try:
            os.environ["QSYNC"] = "/none/qsync"
            with self.assertRaises(FileNotFoundError):
                qsync.inspect("resnet8")
        finally:
            os.environ["QSYNC"] = said


class Tensors(InFolder):
    def test_written_and_read(self):
        random = numpy.random.default_rng(1)
        tensors = {
            "b": random.standard_normal((3, 5)).astype("f4"),
            "a": numpy.arange(7, dtype="i8"),
            "flag": numpy.array(True),
            "half": random.standard_normal(4).astype("f2"),
        }
        qsync.write_tensors("t.safetensors", tensors, {"made": "here"})
        read = qsync.read_tensors("t.safetensors")
        self.assertEqual(set(read), set(tensors))
        for name, values in tensors.items():
            self.assertEqual(read[name].dtype, values.dtype)
            self.assertEqual(read[name].shape, values.shape)
            self.assertEqual(read[name].tobytes(), values.tobytes())

    def test_broken(self):
        qsync.write_tensors("t.safetensors", {"a": numpy.zeros((4, 4), "f4")})
        whole = Path("t.safetensors").read_bytes()
        for cut in (0, 7, 20, len(whole) - 1):
            Path("cut").write_bytes(whole[:cut])
            with self.assertRaises(qsync.TensorFileError):
                qsync.read_tensors("cut")
        for wrong in (b'{"a":1}', b"[]", b'{"a":{"dtype":"F3","shape":[1],"data_offsets":[0,4]}}', b"\xff"):
            Path("wrong").write_bytes(len(wrong).to_bytes(8, "little") + wrong + bytes(4))
            with self.assertRaises(qsync.TensorFileError):
                qsync.read_tensors("wrong")

    def test_start_from_arrays(self):
        start = qsync.train("net.json", "npz:set.npz", epochs=0, out="first", **JOB)
        tensors = qsync.weights(start.path)
        self.assertEqual(tensors["conv.weight"].shape, (4, 2, 3, 3))
        tensors = {name: values + numpy.float32(0.25) for name, values in tensors.items()}
        qsync.write_tensors("moved.safetensors", tensors)
        again = qsync.train("net.json", "npz:set.npz", weights="moved.safetensors", epochs=0, out="second", **JOB)
        for name, values in qsync.weights(again.path).items():
            self.assertEqual(values.tobytes(), tensors[name].tobytes())


if __name__ == "__main__":
    unittest.main()
