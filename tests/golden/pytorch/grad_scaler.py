"""Traces of torch.amp.GradScaler under random settings and overflows, with torch.optim.SGD behind it.

Per window: the gradients as the model would have them (float16), and what was true after scaler.update(). The learning
rate is a power of two, so that weights compare bit for bit whether or not products and sums are fused.
"""

import numpy
import torch

SEED = 20260701
CASES, WINDOWS, WEIGHTS = 24, 500, 3
LEARNING_RATE = 2.0**-4


def settings_of(random, case):
    """initial scale, growth factor, backoff factor, growth interval, share of windows with an overflow."""
    initial = [65536.0, 1024.0, 2.0**40, 3.7e4, 2.0**120, 1.0, 2.0**-10, 1e37][case % 8]
    growth = random.choice([2.0, 1.5, 1.001, 4.0, 1.7320508])
    backoff = random.choice([0.5, 0.25, 0.9, 0.3333, 0.999])
    interval = random.choice([1, 2, 3, 7, 20, 100])
    return initial, growth, backoff, float(interval), random.choice([0.0, 0.01, 0.05, 0.2, 0.4])


def gradients_of(random, overflow_share):
    gradients = random.integers(-64, 65, (WINDOWS, WEIGHTS)).astype(numpy.float16) / numpy.float16(16)
    for window in numpy.flatnonzero(random.random(WINDOWS) < overflow_share):
        gradients[window, random.integers(WEIGHTS)] = random.choice([numpy.inf, -numpy.inf, numpy.nan])
    return gradients


def trace(settings, gradients):
    initial, growth, backoff, interval, _ = settings
    scaler = torch.amp.GradScaler("cpu", init_scale=initial, growth_factor=growth, backoff_factor=backoff,
                                  growth_interval=int(interval))
    weights = torch.zeros(WEIGHTS, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=LEARNING_RATE)
    updates = 0

    def count(*_):
        nonlocal updates
        updates += 1

    optimizer.register_step_post_hook(count)
    rows = []
    for gradient in torch.from_numpy(gradients).float():
        optimizer.zero_grad()
        scaler.scale((weights * gradient).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        rows.append((scaler.get_scale(), scaler._get_growth_tracker(), updates, weights.detach().numpy().copy()))
    scales, trackers, counts, values = zip(*rows)
    return (numpy.array(scales, numpy.float32), numpy.array(trackers, numpy.int32), numpy.array(counts, numpy.int32),
            numpy.array(values, numpy.float32))


def arrays(random):
    kept = []
    while len(kept) < CASES:
        settings = settings_of(random, len(kept))
        gradients = gradients_of(random, settings[4])
        result = trace(settings, gradients)
        # GradScaler knows no smallest scale; 2^-60 is well above the smallest that halfstep admits.
        if result[0].min() >= 2.0**-60:
            kept.append((settings, gradients, *result))
    names = ["settings", "gradients", "scales", "growth_trackers", "update_numbers", "weights"]
    return {name: numpy.stack([numpy.asarray(case[i]) for case in kept]) for i, name in enumerate(names)}
