"""100 updates of torch.optim.SGD, Adam and AdamW, in float32 and, to see what rounding does, in float64.

Two parameters of 5 and 3 elements; the second, a parameter group, has a learning rate and a weight decay of its own.
"""

import itertools

import numpy
import torch

SEED = 20260703
SIZES = [5, 3]
STEPS = 100
SHOWN = [1, 2, 3, 10, 30, 100]


def sgd_cases():
    for momentum, dampening, nesterov, decay, maximize in itertools.product(
            [0, 0.9], [0, 0.3], [False, True], [0, 0.1], [False, True]):
        if not (nesterov and (momentum == 0 or dampening != 0)) and not (momentum == 0 and dampening != 0):
            yield dict(lr=0.03, momentum=momentum, dampening=dampening, nesterov=nesterov, weight_decay=decay,
                       maximize=maximize)


def adam_cases():
    for betas, eps, decay, maximize in itertools.product(
            [(0.9, 0.999), (0.3, 0.95), (0.0, 0.5)], [1e-8, 1e-3], [0, 0.1], [False, True]):
        yield dict(lr=0.01, betas=betas, eps=eps, weight_decay=decay, maximize=maximize)


# learning rate and weight decay of the second parameter, as factors
FACTORS = [(1, 1), (0.25, 0), (3, 2)]


def run(kind, options, factors, start, gradients, dtype):
    first, second = (torch.tensor(part, dtype=dtype, requires_grad=True) for part in numpy.split(start, SIZES[:1]))
    groups = [{"params": [first]}, {"params": [second], "lr": options["lr"] * factors[0],
                                    "weight_decay": options["weight_decay"] * factors[1]}]
    optimizer = getattr(torch.optim, kind)(groups, foreach=False, **options)
    shown = []
    for step, gradient in enumerate(gradients, 1):
        for parameter, part in zip((first, second), numpy.split(gradient, SIZES[:1])):
            parameter.grad = torch.tensor(part, dtype=dtype)
        optimizer.step()
        if step in SHOWN:
            shown.append(torch.cat([first, second]).detach().numpy().copy())
    return numpy.stack(shown)


def arrays(random):
    start = random.standard_normal(sum(SIZES)).astype(numpy.float32)
    sizes_of_elements = numpy.array([1, 1e-3, 30, 1, 1e-6, 1, 0, 0.1])
    gradients = (random.standard_normal((STEPS, sum(SIZES))) * sizes_of_elements).astype(numpy.float32)
    result = {"sizes": numpy.array(SIZES, numpy.int64), "start": start, "gradients": gradients,
              "shown_steps": numpy.array(SHOWN, numpy.int64)}
    for kind, cases in [("SGD", sgd_cases()), ("Adam", adam_cases()), ("AdamW", adam_cases())]:
        settings, weights, exact = [], [], []
        for number, options in enumerate(cases):
            factors = FACTORS[number % len(FACTORS)]
            if kind == "SGD":
                row = [options[k] for k in ("lr", "momentum", "dampening", "nesterov", "weight_decay", "maximize")]
            else:
                row = [options["lr"], *options["betas"], *(options[k] for k in ("eps", "weight_decay", "maximize"))]
            settings.append([*map(float, row), *map(float, factors)])
            weights.append(run(kind, options, factors, start, gradients, torch.float32))
            exact.append(run(kind, options, factors, start, gradients, torch.float64))
        result[f"{kind}.settings"] = numpy.array(settings)
        result[f"{kind}.weights"] = numpy.stack(weights)
        result[f"{kind}.weights_in_double"] = numpy.stack(exact).astype(numpy.float32)
    return result
