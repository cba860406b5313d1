"""read_logs.py <program> <folder>: the logs that the program writes, read by the tools that people read them with.

Exit code 77: TensorBoard is not installed, and the test is skipped.
"""
import csv
import json
import math
import pathlib
import shutil
import subprocess
import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
except ImportError as missing:
    print(f"{missing}: reading the logs with TensorBoard is skipped.")
    sys.exit(77)

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
subprocess.run([program, folder], check=True)


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


LOSSES = [0.1, 0.1, -math.inf]
NORMS = [2.5, math.inf, math.nan]

# TensorBoard's reader checks lengths and checksums of every record, and stops at the first that is wrong.
events = EventAccumulator(str(folder))
events.Reload()
assert {"training/loss", "training/gradient_norm", "training/scale", "training/outcome"} <= set(events.Tags()["scalars"])
loss = events.Scalars("training/loss")
assert [event.step for event in loss] == [1, 2, 300], loss
assert all(math.isclose(e.value, x, rel_tol=1e-7) or e.value == x for e, x in zip(loss, LOSSES)), loss
assert all(same(e.value, x) for e, x in zip(events.Scalars("training/gradient_norm"), NORMS))
assert [e.value for e in events.Scalars("training/next_scale")] == [65536, 32768, 32768]
assert [e.value for e in events.Scalars("training/outcome")] == [0, 1, 2]
files = list(folder.glob("events.out.tfevents.*"))
assert len(files) == 1
assert sum(1 for _ in RawEventFileLoader(str(files[0])).Load()) == 4

records = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
assert [r["attempts"] for r in records] == [1, 2, 300]
assert all(same(float(r["loss"]), x) for r, x in zip(records, LOSSES))
assert all(same(float(r["gradient_norm"]), x) for r, x in zip(records, NORMS))
assert records[1]["first_non_finite_tensor"] == 'a "quoted", name'

with open(folder / "log.csv", newline="") as file:
    rows = list(csv.DictReader(file))
assert all(same(float(r["loss"]), x) for r, x in zip(rows, LOSSES))
assert all(same(float(r["gradient_norm"]), x) for r, x in zip(rows, NORMS))
assert rows[1]["first_non_finite_tensor"] == 'a "quoted", name' and rows[2]["attempts"] == "300"
assert list(rows[0]) == list(records[0]), "CSV and JSON have the same fields"
print("TensorBoard, json and csv read what was written.")
