"""Convolution and pooling, forward and backward, in float32, float16 and bfloat16 on the CPU.

Names: <type>.<case>.<tensor>. Images are stored with channels last, weights as [out, kernel height, kernel width, in]; PyTorch
computes on the permuted views. 16-bit results are those of autocast: a convolution of 16-bit operands, whose weight's
gradient comes back in float32; pooling in the type of its input. In 16 bits PyTorch rounds each share of a pixel's or a
weight's gradient before it adds it; dx64, dweight64 and dbias64 are the same gradients in float64, from the same operands.
Numbers of 16-bit types and float64 are stored as float32.
"""

import torch
import torch.nn.functional as F

from .transformer import Recorder, TYPES

SEED = 20261206

# images [batch, height, width, in], out channels, kernel, stride, padding, bias
CONVOLUTIONS = {
    "same": ((2, 6, 5, 3), 4, (3, 3), (1, 1), (1, 1), True),
    "strided": ((1, 7, 8, 2), 3, (3, 2), (2, 3), (0, 1), False),
    "pointwise": ((2, 3, 4, 5), 3, (1, 1), (1, 1), (0, 0), True),
}
# images, kernel, stride, padding
POOLINGS = {
    "side_by_side": ((2, 5, 6, 3), (2, 2), (2, 2), (0, 0)),
    "overlapping": ((1, 7, 6, 2), (3, 2), (2, 1), (1, 1)),
}


def first(tensor):
    """Channels last to PyTorch's order; a view, through which gradients go back."""
    return tensor.permute(0, 3, 1, 2)


def last(tensor):
    return tensor.permute(0, 2, 3, 1)


def exactly(tensor):
    return tensor.detach().double().requires_grad_(True)


def convolution(r, case, images, out, kernel, stride, padding, bias):
    x = r.leaf(*images)
    weight = r.leaf(out, *kernel, images[-1], scale=0.5, dtype=torch.float32)
    b = r.leaf(out, dtype=torch.float32) if bias else None
    with torch.autocast("cpu", dtype=r.dtype, enabled=r.dtype != torch.float32):
        y = last(F.conv2d(first(x), first(weight), b, stride, padding))
    dy = r.normal(*y.shape).to(r.dtype)
    y.backward(dy)
    biases = {"bias": b, "dbias": b.grad} if bias else {}
    r.put(f"convolution.{case}", x=x, weight=weight, y=y, dy=dy, dx=x.grad, dweight=weight.grad, **biases)
    exact = [exactly(t.to(r.dtype)) for t in (x, weight)] + ([exactly(b)] if bias else [])
    last(F.conv2d(first(exact[0]), first(exact[1]), exact[2] if bias else None, stride, padding)).backward(dy.double())
    r.put(f"convolution.{case}", **{f"d{name}64": t.grad for name, t in zip(("x", "weight", "bias"), exact)})
    put_options(r, f"convolution.{case}", kernel, stride, padding)


def pooling(r, name, function, case, images, kernel, stride, padding):
    x = r.leaf(*images)
    y = last(function(first(x), kernel, stride, padding))
    dy = r.normal(*y.shape).to(r.dtype)
    y.backward(dy)
    exact = exactly(x)
    last(function(first(exact), kernel, stride, padding)).backward(dy.double())
    r.put(f"{name}.{case}", x=x, y=y, dy=dy, dx=x.grad, dx64=exact.grad)
    put_options(r, f"{name}.{case}", kernel, stride, padding)


def put_options(r, operation, kernel, stride, padding):
    r.put(operation, kernel=torch.tensor(kernel), stride=torch.tensor(stride), padding=torch.tensor(padding))


def arrays(random):
    result = {}
    for kind, dtype in TYPES.items():
        recorder = Recorder(kind, dtype, random)
        for case, options in CONVOLUTIONS.items():
            convolution(recorder, case, *options)
        for case, options in POOLINGS.items():
            pooling(recorder, "max_pool", F.max_pool2d, case, *options)
            pooling(recorder, "average_pool", F.avg_pool2d, case, *options)
        result.update(recorder.result)
    return result
