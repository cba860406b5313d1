"""Attention and a head with its cross-entropy, forward and backward, in float32, float16 and bfloat16 on the CPU.

Names: <type>.<operation>.<tensor>. Numbers of 16-bit types are stored as the float32 of the same value. Beside what
PyTorch's attention makes of 16-bit operands (y, dq, ...) stands what mathematics makes of them (exact_y, exact_dq, ...), by
PyTorch in float64.
"""

import torch
import torch.nn.functional as F

from pytorch.transformer import TYPES, Recorder

SEED = 20261130
# batch, queries, keys, heads, heads of keys and values, width, causal, valid keys
ATTENTION = [(2, 11, 11, 3, 3, 8, True, None), (1, 7, 7, 4, 2, 4, True, None), (2, 6, 10, 2, 2, 5, False, (10, 4)),
             (1, 100, 100, 2, 1, 4, True, None)]
CROSS_ENTROPY = [(0.0, -100), (0.1, 3)]  # label smoothing, ignore index


def attention_of(q, k, v, case):
    batch, queries, keys, heads, shared, width, causal, lengths = case
    split = lambda x, count: x.view(batch, -1, count, width).transpose(1, 2)
    k, v = (split(x, shared).repeat_interleave(heads // shared, dim=1) for x in (k, v))
    mask = lengths and (torch.arange(keys) < torch.tensor(lengths)[:, None])[:, None, None, :].expand(-1, 1, queries, -1)
    y = F.scaled_dot_product_attention(split(q, heads), k, v, attn_mask=mask, is_causal=causal)
    return y.transpose(1, 2).reshape(batch, queries, heads * width)


def attention(r, number, case):
    batch, queries, keys, heads, shared, width, causal, lengths = case
    leaves = [r.leaf(batch, queries, heads * width), *(r.leaf(batch, keys, shared * width) for _ in range(2))]
    dy = r.normal(batch, queries, heads * width).to(r.dtype)
    y = attention_of(*leaves, case)
    y.backward(dy)
    exact = [x.detach().double().requires_grad_(True) for x in leaves]
    exact_y = attention_of(*exact, case)
    exact_y.backward(dy.double())
    tensors = {"y": y, "dy": dy, "exact_y": exact_y}
    for name, x, e in zip("qkv", leaves, exact):
        tensors |= {name: x, f"d{name}": x.grad, f"exact_d{name}": e.grad}
    r.put(f"attention_{number}", **tensors, heads=torch.tensor([heads, shared]), causal=torch.tensor(int(causal)),
          lengths=torch.tensor(lengths or (keys,) * batch))


def head_cross_entropy(r, number, smoothing, ignore_index):
    x, weight = r.leaf(2, 4, 13), r.leaf(11, 13, dtype=torch.float32)
    labels = torch.from_numpy(r.random.integers(0, 11, 8))
    labels[2] = labels[5] = 3
    with torch.autocast("cpu", dtype=r.dtype, enabled=r.dtype != torch.float32):
        logits = F.linear(x, weight)
    loss = F.cross_entropy(logits.float().view(8, 11), labels, label_smoothing=smoothing, ignore_index=ignore_index)
    loss.backward()
    r.put(f"head_cross_entropy_{number}", x=x, weight=weight, labels=labels, loss=loss, dx=x.grad, dweight=weight.grad,
          smoothing=torch.tensor(smoothing), ignore_index=torch.tensor(ignore_index))


def arrays(random):
    result = {}
    for kind, dtype in TYPES.items():
        recorder = Recorder(kind, dtype, random)
        for number, case in enumerate(ATTENTION):
            attention(recorder, number, case)
        for number, case in enumerate(CROSS_ENTROPY):
            head_cross_entropy(recorder, number, *case)
        result.update(recorder.result)
    return result
