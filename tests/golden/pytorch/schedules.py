"""The learning rates of torch.optim.lr_scheduler at 1,000 positions, rounded to float32.

Those with warm-up are Hugging Face's get_*_schedule_with_warmup: LambdaLR with the functions below.
"""

import math
import warnings

import numpy
import torch
from torch.optim import lr_scheduler as torch_schedules

SEED = 20260704
POSITIONS = 1000
WARMUP, LENGTH = 100, 900


def with_warmup(after):
    return lambda step: step / WARMUP if step < WARMUP else after(step)


def progress(step):
    return min(1.0, (step - WARMUP) / (LENGTH - WARMUP))


LAMBDAS = {
    "warmup_constant": with_warmup(lambda step: 1.0),
    "warmup_linear": with_warmup(lambda step: 1.0 - progress(step)),
    "warmup_cosine": with_warmup(lambda step: 0.5 * (1.0 + math.cos(math.pi * progress(step)))),
    "inverse_square_root": with_warmup(lambda step: 1.0 / math.sqrt(step / WARMUP)),
}


def rates(base, make, positions=POSITIONS):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=base)
    schedule = make(optimizer)
    result = []
    for position in range(positions):
        result.append(optimizer.param_groups[0]["lr"])
        if position + 1 < positions:
            optimizer.step()
            schedule.step()
    return numpy.array(result).astype(numpy.float32)


def arrays(random):
    del random
    warnings.simplefilter("ignore")
    s = torch_schedules
    result = {
        "constant": rates(0.05, lambda o: s.ConstantLR(o, factor=1.0, total_iters=10)),
        "step_decay": rates(0.05, lambda o: s.StepLR(o, 130, gamma=0.3)),
        "exponential": rates(0.05, lambda o: s.ExponentialLR(o, 0.995)),
        "linear": rates(0.05, lambda o: s.LinearLR(o, start_factor=1.0, end_factor=0.25, total_iters=700)),
        "cosine": rates(0.1, lambda o: s.CosineAnnealingLR(o, T_max=POSITIONS - 1, eta_min=0.001)),
        "one_cycle": rates(0.1, lambda o: s.OneCycleLR(o, 0.1, total_steps=POSITIONS, cycle_momentum=False)),
        "one_cycle_chosen": rates(0.1, lambda o: s.OneCycleLR(o, 0.5, total_steps=POSITIONS, pct_start=0.137,
                                                              div_factor=10, final_div_factor=100,
                                                              cycle_momentum=False)),
    }
    for name, function in LAMBDAS.items():
        result[name] = rates(1e-3, lambda o, f=function: s.LambdaLR(o, f))
    return result
