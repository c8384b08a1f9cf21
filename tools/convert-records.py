#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records of schema 1 become records of schema 2, in place: tools/convert-records.py FILE|RUN-FOLDER...

What changed is docs/records.md's "Older records". A file is written as a whole or not at all; what this script does not know is refused, and
the file stays as it was. Files of schema 2 are left alone.

cluster   threads and isa go into the object named after the class's backend
job       nothing but the schema
profile   names of kernels and of operators' settings in cases; the device's description; inputs and target of the model; the model's
          signature, which the program tells: environment QSYNC names it ("qsync"). Estimated ones are refused: estimate again
plan      names of kernels and settings; samples_per_second. Signatures and hashes of schedules are over the old names: they are taken out,
          so that training does not compare them. It lowers anew, with the kernels that the plan names
audit     nothing but the schema
folder    of a run: config.json, plan.json, audit.json, timing.json and result.json in it. Its weights.qsync, whose names and
          order of values were qsync's own, and its state.qsync are read by no other program than the one that wrote them
"""
import json
import os
import re
import subprocess
import sys
import tempfile

BACKENDS = ("cpu", "ref")  # whose classes have threads and isa
UNIT = "images"  # of every data set that schema 1 knew
BATCH_NORM = ("epsilon", "momentum")
SETTINGS = {  # of operators, in the order in which schema 1 numbered them: value, value2, ...
    "sgd": ("momentum", "weight_decay"),
    "adam": ("beta1", "beta2", "epsilon", "weight_decay"),
    "dropout": ("probability",),
    "relu": ("ceiling",),
    "clip_norm": ("clip_norm",),
    "batch_norm": BATCH_NORM,
    "l1_batch_norm": BATCH_NORM,
    "l1_batch_norm_int8": BATCH_NORM,
    "l2_batch_norm_int8": BATCH_NORM,
    "l2_batch_norm_int8_std": BATCH_NORM,
    "layer_norm": ("epsilon",),
    "l1_layer_norm": ("epsilon",),
    "l1_layer_norm_int8": ("epsilon",),
}
KERNELS = {"own:taps:": "own:weight_gradient:", "own:gathered:": "own:grouped_gemm:"}


class Refused(Exception):
    pass


def take(record, name, where):
    if name not in record:
        raise Refused(f'{where}: field "{name}" is missing')
    return record.pop(name)


def case_text(old):
    operator = old.split("/")[0]

    def named(match):
        names, index = SETTINGS.get(operator, ()), int(match[1] or 1) - 1
        if index >= len(names):
            raise Refused(f'case "{old}": operator {operator} has no setting {index + 1}')
        return f" {names[index]}="

    return re.sub(r" value([2-9]?)=", named, old)


def kernel_name(old):
    for start, new in KERNELS.items():
        if old.startswith(start):
            return new + old[len(start) :]
    return old


def cluster(record):
    for name, one in record["classes"].items():
        backend = one.get("backend")
        own = {key: one.pop(key) for key in ("threads", "isa") if key in one}
        if backend in BACKENDS and own:
            later = dict(one)
            one.clear()
            for key, value in later.items():
                one[key] = value
                if key == "backend":
                    one[backend] = own
        elif own.get("threads", 1) != 1 or own.get("isa", "all") != "all":
            raise Refused(f'classes.{name}: backend "{backend}" has no threads and no isa: take them out')


def pace(record):
    """The throughput in images becomes one in samples, beside the unit."""
    if "images_per_second" not in record:
        return
    later = dict(record)
    record.clear()
    for key, value in later.items():
        if key == "images_per_second":
            record["samples_per_second"] = value
            record["unit"] = UNIT
        else:
            record[key] = value


def plan(record):
    record.pop("signature", None)
    pace(record)
    for one in record["classes"].values():
        one.pop("schedule", None)
        if "kernels" in one:
            one["kernels"] = {case_text(case): dict(row, kernel=kernel_name(row["kernel"])) for case, row in one["kernels"].items()}


def signature(model, channels, height, width, classes):
    program = os.environ.get("QSYNC", "qsync")
    command = [program, "inspect", model, "--input", f"{channels}x{height}x{width}", "--classes", str(classes), "--json"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Refused(f"{program}: {error.strerror}: set QSYNC to the program, which tells the signature of {model}") from error
    if told.returncode:
        raise Refused(f"{' '.join(command)}: {told.stderr.strip()}")
    return json.loads(told.stdout)["signature"]


def device(one, where):
    old = take(one, "device", where)
    if one.get("estimated"):
        raise Refused(f"{where}: estimated: run qsync profile --estimate again")
    backend = "ref" if old["library"] == "reference" else "cpu"
    own = {"threads": take(old, "threads", where), "isa": take(old, "isa", where)}
    if "cache_bytes" in one:
        own["cache_bytes"] = one.pop("cache_bytes")
    described = {"backend": backend, "name": take(old, "cpu", where)}
    for key in ("speed", "library", "build"):
        described[key] = take(old, key, where)
    if old:
        raise Refused(f"{where}.device: unknown field \"{next(iter(old))}\"")
    rest = dict(one)
    one.clear()
    one.update({"device": described, backend: own}, **rest)


def profile(record):
    model = record["model"]
    name, channels, height, width, classes = (take(model, key, "model") for key in ("name", "channels", "height", "width", "classes"))
    if model:
        raise Refused(f"model: unknown field \"{next(iter(model))}\"")
    if not height:
        raise Refused("model: a flat input: profile again")
    image = {"name": "input", "type": "u8", "extents": [height, width, channels]}
    samples = {"unit": UNIT, "inputs": [image], "target": {"kind": "class", "classes": classes}}
    told, rest = signature(name, channels, height, width, classes), dict(record)
    record.clear()
    for key, value in rest.items():
        record[key] = told if key == "graph" else {"name": name} if key == "model" else value
        if key == "model":
            record["samples"] = samples
    for class_name, one in record["classes"].items():
        device(one, f"classes.{class_name}")
        for row in one["kernels"]:
            row["case"], row["kernel"] = case_text(row["case"]), kernel_name(row["kernel"])
        one["kernels"].sort(key=lambda row: row["case"].encode())


def run(record):
    settings = record["settings"]
    settings["backend"] = "ref" if settings["library"] == "reference" else "cpu"
    settings["device"] = take(settings, "cpu", "settings")
    convert_record(record["job"], "job")
    convert_record(record["cluster"], "cluster")


def nothing(_record):
    pass


KINDS = {"cluster": cluster, "job": nothing, "profile": profile, "plan": plan, "audit": nothing, "run": run}


def convert_record(record, wanted=None):
    """True when something changed."""
    match = re.fullmatch(r"qsync/([a-z]+)/([0-9]+)", str(record.get("schema")))
    if not match or match[1] not in KINDS or (wanted and match[1] != wanted):
        raise Refused(f'schema: {json.dumps(record.get("schema"))} is none of {", ".join(f"qsync/{kind}/1" for kind in KINDS)}')
    if match[2] == "2":
        return False
    if match[2] != "1":
        raise Refused(f"schema: {match[0]} is newer than this script")
    KINDS[match[1]](record)
    record["schema"] = f"qsync/{match[1]}/2"
    return True


def layout(value, indent, width):
    """In one line what fits into so many columns, and what holds nothing but numbers and texts; a line for each row of a list."""
    line = json.dumps(value, ensure_ascii=False)
    members = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    rows = isinstance(value, list) and any(isinstance(one, dict) for one in members)
    flat = not any(isinstance(one, (dict, list)) for one in members)
    if not members or (indent and not rows and (len(line) + len(indent) <= width or flat)):
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        lines = [f"{deeper}{json.dumps(key, ensure_ascii=False)}: {layout(one, deeper, width)}" for key, one in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(deeper + layout(one, deeper, width) for one in value) + f"\n{indent}]"


def file_write(path, text):
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".convert-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(temporary, os.stat(path).st_mode & 0o7777)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def convert_file(path, change=convert_record):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    record = json.loads(text)
    if not isinstance(record, dict):
        raise Refused("must be an object")
    if not change(record):
        return f"{path}: nothing to do"
    if "\n" in text.strip():
        changed = layout(record, "", 125)
    else:
        changed = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    file_write(path, changed + "\n")
    return f"{path}: converted"


def figures(record):
    before = list(record)
    pace(record)
    return list(record) != before


def convert(path):
    if not os.path.isdir(path):
        return [convert_file(path)]
    parts = {"config.json": convert_record, "plan.json": convert_record, "audit.json": convert_record, "timing.json": figures, "result.json": figures}
    there = [name for name in parts if os.path.exists(os.path.join(path, name))]
    if "config.json" not in there:
        raise Refused("is no folder of a run: it has no config.json")
    return [convert_file(os.path.join(path, name), parts[name]) for name in there]


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__, end="", file=sys.stdout if len(sys.argv) > 1 else sys.stderr)
        return 0 if len(sys.argv) > 1 else 2
    failed = 0
    for path in sys.argv[1:]:
        try:
            print("\n".join(convert(path)))
        except (Refused, KeyError, TypeError, AttributeError, OSError, ValueError) as error:
            what = f"field {error} is missing" if isinstance(error, KeyError) else error
            print(f"convert-records: {path}: {what}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
