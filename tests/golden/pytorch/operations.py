"""Every operation forward and backward, in float32 and as autocast computes it in float16 and bfloat16 on the CPU.

Names: <type>.<operation>.<tensor>. Numbers of 16-bit types are stored as the float32 of the same value.
"""

import numpy
import torch
import torch.nn.functional as F

SEED = 20260705
TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
ROWS, IN, OUT = 7, 13, 11
SPECIAL = [0.0, -0.0, 1.0, -1.0, 10.0, -10.0, 50.0, -50.0, 6e-8, -6e-8, 1e-5, 300.0, -300.0, 5.0, -5.0, 3.0]
CROSS_ENTROPY = [(0.0, -100), (0.1, -100), (0.0, 3), (0.25, 3), (1.0, -100)]  # label smoothing, ignore index
DROPS = [0.1, 0.25, 0.5, 0.9]


def stored(tensor):
    return tensor.detach().float().numpy().copy()


class Recorder:
    def __init__(self, kind, dtype, random):
        self.kind, self.dtype, self.random, self.result = kind, dtype, random, {}

    def put(self, operation, **tensors):
        for name, tensor in tensors.items():
            self.result[f"{self.kind}.{operation}.{name}"] = stored(tensor)

    def normal(self, *shape):
        return torch.from_numpy(self.random.standard_normal(shape).astype(numpy.float32))

    def leaf(self, values):
        return values.to(self.dtype).detach().requires_grad_(True)

    def linear(self, bias):
        x, dy = self.leaf(self.normal(ROWS, IN)), self.normal(ROWS, OUT).to(self.dtype)
        weight, b = self.normal(OUT, IN).requires_grad_(True), self.normal(OUT).requires_grad_(True)
        with torch.autocast("cpu", dtype=self.dtype, enabled=self.dtype != torch.float32):
            y = F.linear(x, weight, b if bias else None)
        y.backward(dy)
        name = "linear" if bias else "linear_without_bias"
        self.put(name, x=x, weight=weight, y=y, dy=dy, dx=x.grad, dweight=weight.grad)
        if bias:
            self.put(name, bias=b, dbias=b.grad)

    def elementwise(self, name, function):
        x = self.leaf(torch.cat([torch.tensor(SPECIAL), 2 * self.normal(112)]))
        dy = self.normal(len(x)).to(self.dtype)
        y = function(x)
        y.backward(dy)
        self.put(name, x=x, y=y, dy=dy, dx=x.grad)

    def cross_entropy(self, number, smoothing, ignore_index):
        x = self.leaf(4 * self.normal(9, OUT))
        labels = torch.from_numpy(self.random.integers(0, OUT, 9))
        labels[2] = labels[5] = 3
        loss = F.cross_entropy(x.float(), labels, label_smoothing=smoothing, ignore_index=ignore_index)
        loss.backward()
        self.put(f"cross_entropy_{number}", x=x, labels=labels, loss=loss, dx=x.grad,
                 smoothing=torch.tensor(smoothing), ignore_index=torch.tensor(ignore_index))

    def mean_squared_error(self):
        x, target = self.leaf(self.normal(5, 7)), self.normal(5, 7)
        loss = F.mse_loss(x.float(), target)
        loss.backward()
        self.put("mean_squared_error", x=x, target=target, loss=loss, dx=x.grad)

    def dropout(self, number, drop):
        """What becomes of an element that is kept, and of its gradient: which ones are kept is chance."""
        x, dy = self.normal(64).to(self.dtype), self.normal(64).to(self.dtype)
        x[x == 0], dy[dy == 0] = 1, 1
        y, dx = torch.zeros_like(x), torch.zeros_like(x)
        while (y == 0).any():
            leaf = x.clone().requires_grad_(True)
            once = F.dropout(leaf, drop)
            once.backward(dy)
            y, dx = torch.where(once != 0, once.detach(), y), torch.where(leaf.grad != 0, leaf.grad, dx)
        self.put(f"dropout_{number}", drop=torch.tensor(drop), x=x, y=y, dy=dy, dx=dx)

    def conversion(self):
        x = torch.cat([self.normal(256) * 10.0 ** torch.from_numpy(self.random.uniform(-44, 38, 256)).float(),
                       self.normal(256) * 10.0 ** torch.from_numpy(self.random.uniform(-9, 6, 256)).float(),
                       torch.tensor(SPECIAL + [65504.0, 65519.99, 65520.0, 2.0**-24, 2.0**-25, 3 * 2.0**-26, 3.4e38,
                                               2049.0, 2051.0, 257.0, 259.0, float("inf"), -float("inf")])])
        self.put("conversion", x=x, y=x.to(self.dtype))

    def sum(self):
        x = self.leaf(self.normal(100))
        total = x.float().sum()
        total.backward()
        self.put("sum", x=x, loss=total, dx=x.grad)

    def everything(self):
        self.linear(bias=True)
        self.linear(bias=False)
        self.elementwise("relu", F.relu)
        self.elementwise("gelu", F.gelu)
        self.elementwise("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"))
        for number, case in enumerate(CROSS_ENTROPY):
            self.cross_entropy(number, *case)
        self.mean_squared_error()
        for number, drop in enumerate(DROPS):
            self.dropout(number, drop)
        self.conversion()
        self.sum()
        return self.result


def arrays(random):
    result = {}
    for kind, dtype in TYPES.items():
        result.update(Recorder(kind, dtype, random).everything())
    return result
