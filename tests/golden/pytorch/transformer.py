"""The operations of transformers forward and backward, as autocast computes them in float16 and bfloat16 on the CPU.

Names: <type>.<operation>.<tensor>. Numbers of 16-bit types are stored as the float32 of the same value. One function for
each operation: it takes a Recorder, draws its inputs from it and puts what PyTorch made of them.
"""

import numpy
import torch
import torch.nn.functional as F

SEED = 20261129
TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class Recorder:
    def __init__(self, kind, dtype, random):
        self.kind, self.dtype, self.random, self.result = kind, dtype, random, {}

    def put(self, operation, **tensors):
        for name, tensor in tensors.items():
            tensor = tensor.detach()
            stored = tensor.float() if tensor.is_floating_point() else tensor
            self.result[f"{self.kind}.{operation}.{name}"] = stored.numpy().copy()

    def normal(self, *shape):
        return torch.from_numpy(self.random.standard_normal(shape).astype(numpy.float32))

    def leaf(self, *shape, scale=1.0, dtype=None):
        return (scale * self.normal(*shape)).to(dtype or self.dtype).requires_grad_(True)


def layer_norm(r):
    """Autocast leaves norms in float32, whatever their input."""
    x, dy = r.leaf(2, 5, 12, scale=3.0), r.normal(2, 5, 12)
    weight, bias = r.leaf(12, dtype=torch.float32), r.leaf(12, dtype=torch.float32)
    y = F.layer_norm(x.float(), (12,), weight, bias, eps=1e-5)
    y.backward(dy)
    r.put("layer_norm", x=x, weight=weight, bias=bias, y=y, dy=dy, dx=x.grad, dweight=weight.grad, dbias=bias.grad)


def rms_norm(r):
    x, dy, weight = r.leaf(2, 5, 12, scale=3.0), r.normal(2, 5, 12), r.leaf(12, dtype=torch.float32)
    y = F.rms_norm(x.float(), (12,), weight, eps=1e-6)
    y.backward(dy)
    r.put("rms_norm", x=x, weight=weight, y=y, dy=dy, dx=x.grad, dweight=weight.grad)


def residual_norm(r):
    """A float32 residual, a branch in the type of products, and what comes back to both through sum and norm."""
    x, branch = r.leaf(2, 3, 8, dtype=torch.float32), r.leaf(2, 3, 8)
    weight, bias = r.leaf(8, dtype=torch.float32), r.leaf(8, dtype=torch.float32)
    dsum, dy = r.normal(2, 3, 8), r.normal(2, 3, 8)
    total = x + branch
    y = F.layer_norm(total, (8,), weight, bias)
    torch.autograd.backward([total, y], [dsum, dy])
    r.put("residual_norm", x=x, branch=branch, weight=weight, bias=bias, sum=total, y=y, dsum=dsum, dy=dy, dx=x.grad,
          dbranch=branch.grad, dweight=weight.grad, dbias=bias.grad)


def embedding(r):
    """Tokens that repeat and tokens that never come, under a head that shares the table."""
    tokens = torch.from_numpy(r.random.integers(0, 7, (3, 5)))
    weight, dy = r.leaf(9, 8, dtype=torch.float32), r.normal(3, 5, 8)
    hidden, dlogits = r.leaf(3, 5, 8), r.normal(3, 5, 9).to(r.dtype)
    y = F.embedding(tokens, weight)
    with torch.autocast("cpu", dtype=r.dtype, enabled=r.dtype != torch.float32):
        logits = F.linear(hidden, weight)
    y.backward(dy)
    dweight = weight.grad.clone()
    logits.backward(dlogits)
    r.put("embedding", tokens=tokens, weight=weight, y=y, dy=dy, dweight=dweight, x=hidden, logits=logits,
          dlogits=dlogits, dx=hidden.grad, dweight_tied=weight.grad)


def silu(r):
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, 10.0, -10.0, 50.0, -50.0, 6e-8, -6e-8, 300.0, -300.0])
    x = torch.cat([special, 3 * r.normal(36)]).to(r.dtype).requires_grad_(True)
    dy = r.normal(48).to(r.dtype)
    y = F.silu(x)
    y.backward(dy)
    r.put("silu", x=x, y=y, dy=dy, dx=x.grad)


def swiglu(r):
    """In float32, rounded once; eager PyTorch would round silu(gate) before it multiplies."""
    gate, up, dy = r.leaf(48, scale=3.0), r.leaf(48), r.normal(48).to(r.dtype)
    y = (F.silu(gate.float()) * up.float()).to(r.dtype)
    y.backward(dy)
    r.put("swiglu", gate=gate, up=up, y=y, dy=dy, dgate=gate.grad, dup=up.grad)


def rotary(r, head_width=8, base=10000.0, first_position=3):
    """The formula of Hugging Face's LLaMA: x cos + rotate_half(x) sin, with float32 cosines of float64 angles."""
    x, dy = r.leaf(2, 3, 16), r.normal(2, 3, 16).to(r.dtype)
    inverse = base ** (-torch.arange(0, head_width, 2, dtype=torch.float64) / head_width)
    angles = torch.outer(torch.arange(first_position, first_position + 3, dtype=torch.float64), inverse)
    cos, sin = (torch.cat([f(angles), f(angles)], -1).float()[:, None, :] for f in (torch.cos, torch.sin))
    heads = x.float().reshape(2, 3, -1, head_width)
    first, second = heads.chunk(2, -1)
    y = (heads * cos + torch.cat([-second, first], -1) * sin).reshape(x.shape).to(r.dtype)
    y.backward(dy)
    r.put("rotary", x=x, y=y, dy=dy, dx=x.grad, head_width=torch.tensor(head_width), base=torch.tensor(base),
          first_position=torch.tensor(first_position))


OPERATIONS = [layer_norm, rms_norm, residual_norm, embedding, silu, swiglu, rotary]


def arrays(random):
    result = {}
    for kind, dtype in TYPES.items():
        recorder = Recorder(kind, dtype, random)
        for operation in OPERATIONS:
            operation(recorder)
        result.update(recorder.result)
    return result
