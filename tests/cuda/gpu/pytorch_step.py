"""The training steps of training.hpp in PyTorch, held against ours. Run by gpu_check.sh.

    pytorch_step.py OURS.json RESULT.json SECONDS

OURS.json is what gpu_figures training wrote. Prints lines for the table (state, name, result, with tabs between): every
step eagerly, then compiled as long as SECONDS allow. A step is what ours is: the batch goes to the GPU, autocast for 16
bits with a GradScaler for float16, clipping at norm 1, AdamW (PyTorch's fused one). Ends with 77 where there is no
PyTorch, or none that sees a GPU.
"""

import json
import statistics
import sys
import time

began = time.monotonic()
try:
    import torch
except ImportError as error:
    print(f"{sys.executable} has no PyTorch: {error}", file=sys.stderr)
    sys.exit(77)
if not torch.cuda.is_available():
    print(f"PyTorch {torch.__version__} of {sys.executable} sees no GPU", file=sys.stderr)
    sys.exit(77)
import torch.nn.functional as F
from torch import nn

# The shapes of training.hpp: inputs, width, hidden layers, classes, rows.
SHAPES = {"small": (64, 128, 1, 10, 64), "large": (256, 4096, 3, 256, 1024)}
TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}

with open(sys.argv[1]) as file:
    ours = [figure for figure in json.load(file) if "samples/s" in figure]
results = []


def say(state, name, result):
    print(f"{state}\t{name}\t{result}", flush=True)


def new_step(shape, kind, is_compiled):
    inputs, width, hidden_layers, classes, rows = SHAPES[shape]
    torch.manual_seed(1)
    sizes = [inputs] + [width] * hidden_layers
    layers = []
    for before, after in zip(sizes, sizes[1:]):
        layers += [nn.Linear(before, after), nn.GELU()]
    model = nn.Sequential(*layers, nn.Linear(sizes[-1], classes)).cuda()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=kind == "float16")
    x = torch.rand(rows, inputs).mul_(2).sub_(1).pin_memory()
    y = torch.randint(0, classes, (rows,)).pin_memory()

    def loss_of(x, y):
        with torch.autocast("cuda", dtype=TYPES[kind], enabled=kind != "float32"):
            logits = model(x)
        return F.cross_entropy(logits.float(), y)

    compute = torch.compile(loss_of) if is_compiled else loss_of

    def step():
        loss = compute(x.cuda(non_blocking=True), y.cuda(non_blocking=True))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step, rows


def seconds_of(step, steps):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(steps):
        loss = step()
    end.record()
    end.synchronize()
    if not torch.isfinite(loss):
        raise RuntimeError(f"the loss is {loss.item()}")
    return max(start.elapsed_time(end) * 1e-3, 5e-7) / steps


def measure(shape, kind, is_compiled):
    """Samples a second: medians of 15 rounds of about 40 ms, as in training.hpp."""
    step, rows = new_step(shape, kind, is_compiled)
    for _ in range(20):
        step()
    steps = min(max(int(0.04 / seconds_of(step, 3)), 1), 1000)
    return rows / statistics.median(seconds_of(step, steps) for _ in range(15))


def compare(shape, kind, way):
    name = f"MLP {shape}, {kind}, against PyTorch's {way}"
    try:
        rate = measure(shape, kind, way == "compiled")
    except Exception as error:  # a compiler that is not there, say
        say("not run", name, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        return
    for figure in ours:
        if (figure["shape"], figure["type"]) != (shape, kind):
            continue
        ratio = figure["samples/s"] / rate
        both = f"{figure['samples/s']:.0f} and {rate:.0f} samples/s"
        say("measured", f"{name}, {figure['way']}", f"{ratio:.2f} times as fast ({both})")
        results.append({"name": name, "shape": shape, "type": kind, "PyTorch": way, "halfstep": figure["way"],
                        "samples/s": rate, "ratio": ratio})
    with open(sys.argv[2], "w") as file:
        json.dump({"PyTorch": torch.__version__, "figures": results}, file, indent=2)


say("measured", "PyTorch", f"{torch.__version__} with CUDA {torch.version.cuda}")
for kind in TYPES:
    for shape in SHAPES:
        compare(shape, kind, "eager")
for kind in TYPES:
    for shape in SHAPES:
        # A compilation takes up to half a minute, the first of all longer.
        if time.monotonic() - began > float(sys.argv[3]) - 40:
            say("not run", f"MLP {shape}, {kind}, against PyTorch's compiled", "no time was left to compile it")
            continue
        compare(shape, kind, "compiled")
