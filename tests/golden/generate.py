#!/usr/bin/env python3
"""Asks PyTorch for the numbers that halfstep's tests are held against, and writes them beside this file.

    python3 tests/golden/generate.py [topic...]

Needs torch and numpy (see README.md for the versions of the data that are committed). Everything runs on the CPU in one
thread, from the seeds named in the scripts; a second run on the same machine writes the same bytes.
"""

import importlib
import json
import pathlib
import platform
import sys

import numpy
import torch

TOPICS = ["grad_scaler", "clip", "optimizers", "schedules", "operations", "transformer", "attention",
          "images", "training", "differences", "gpt"]


def main():
    topics = sys.argv[1:] or TOPICS
    if unknown := set(topics) - set(TOPICS):
        sys.exit(f"{', '.join(unknown)}: no such topic; there are {', '.join(TOPICS)}")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    folder = pathlib.Path(__file__).parent
    for topic in topics:
        module = importlib.import_module(f"pytorch.{topic}")
        torch.manual_seed(module.SEED)
        arrays = module.arrays(numpy.random.default_rng(module.SEED))
        made_with = {"script": f"tests/golden/pytorch/{topic}.py", "seed": module.SEED, "torch": torch.__version__,
                     "numpy": numpy.__version__, "python": platform.python_version(), "machine": platform.machine(),
                     "cpu_capability": torch.backends.cpu.get_cpu_capability()}
        arrays["made_with"] = numpy.frombuffer(json.dumps(made_with).encode(), numpy.uint8)
        path = folder / f"{topic}.npz"
        numpy.savez_compressed(path, **arrays)
        print(f"{path.name:18} {path.stat().st_size:8,} bytes, {len(arrays)} arrays")


if __name__ == "__main__":
    main()
