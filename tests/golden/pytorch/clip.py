"""torch.nn.utils.clip_grad_norm_ and clip_grad_value_ on random gradients of three tensors."""

import numpy
import torch

SEED = 20260702
SIZES = [5, 1, 10]
CASES = 60


def arrays(random):
    gradients = (random.standard_normal((CASES, sum(SIZES))) * 10.0 ** random.uniform(-6, 6, (CASES, 1)))
    gradients = gradients.astype(numpy.float32)
    gradients[0] = 0
    gradients[1, 3:] = 0
    norms = numpy.linalg.norm(gradients.astype(numpy.float64), axis=1)
    max_norms = (norms * random.choice([0.01, 0.5, 0.999, 1.0, 1.001, 3.0], CASES)).astype(numpy.float32)
    max_norms[:3] = [1.0, numpy.inf, numpy.inf]
    max_values = numpy.maximum(numpy.abs(gradients).max(1) * random.uniform(0.1, 1.2, CASES), 1).astype(numpy.float32)
    totals, clipped_norm, clipped_value = [], [], []
    for gradient, max_norm, max_value in zip(gradients, max_norms, max_values):
        def parameters():
            tensors = []
            for part in numpy.split(gradient, numpy.cumsum(SIZES)[:-1]):
                tensors.append(torch.zeros(len(part)))
                tensors[-1].grad = torch.from_numpy(part.copy())
            return tensors

        by_norm, by_value = parameters(), parameters()
        totals.append(torch.nn.utils.clip_grad_norm_(by_norm, float(max_norm)).item())
        torch.nn.utils.clip_grad_value_(by_value, float(max_value))
        clipped_norm.append(numpy.concatenate([p.grad.numpy() for p in by_norm]))
        clipped_value.append(numpy.concatenate([p.grad.numpy() for p in by_value]))
    return {"sizes": numpy.array(SIZES, numpy.int64), "gradients": gradients, "max_norms": max_norms,
            "max_values": max_values, "norms": numpy.array(totals, numpy.float32),
            "clipped_by_norm": numpy.stack(clipped_norm), "clipped_by_value": numpy.stack(clipped_value)}
