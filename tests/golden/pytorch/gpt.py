"""A GPT-2 of two layers with random weights: logits, loss and every gradient in float32, bfloat16 autocast and float16
autocast. The weights go into gpt.safetensors, under the names and in the layout of the published GPT-2.

Gradients of the 16-bit runs are stored as float16 of 2^10 times their value. float16 runs under a loss scale of 2^10.
"""

import pathlib

import numpy
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

SEED = 20261129
LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY, BATCH = 2, 32, 4, 16, 64, 2
SCALE = 1024.0


def first_weights(random):
    def normal(*shape, deviation):
        return (random.standard_normal(shape) * deviation).astype(numpy.float32)

    weights = {"wte.weight": normal(VOCABULARY, WIDTH, deviation=0.3),
               "wpe.weight": normal(CONTEXT, WIDTH, deviation=0.3)}

    def norm(name):
        weights[f"{name}.weight"] = 1 + normal(WIDTH, deviation=0.2)
        weights[f"{name}.bias"] = normal(WIDTH, deviation=0.1)

    for layer in range(LAYERS):
        norm(f"h.{layer}.ln_1")
        norm(f"h.{layer}.ln_2")
        for name, inputs, outputs in [("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                      ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)]:
            weights[f"h.{layer}.{name}.weight"] = normal(inputs, outputs, deviation=1.5 * inputs**-0.5)
            weights[f"h.{layer}.{name}.bias"] = normal(outputs, deviation=0.1)
    norm("ln_f")
    return weights


def logits_of(weights, tokens):
    def product(x, name):
        return F.linear(x, weights[f"{name}.weight"].t(), weights[f"{name}.bias"])

    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-5)

    def heads(x):
        return x.view(*x.shape[:-1], HEADS, WIDTH // HEADS).transpose(1, 2)

    x = F.embedding(tokens, weights["wte.weight"]) + weights["wpe.weight"][:tokens.shape[1]]
    for layer in range(LAYERS):
        name = f"h.{layer}"
        q, k, v = product(norm(x, f"{name}.ln_1"), f"{name}.attn.c_attn").split(WIDTH, dim=-1)
        attended = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=True)
        x = x + product(attended.transpose(1, 2).reshape(x.shape), f"{name}.attn.c_proj")
        inner = F.gelu(product(norm(x, f"{name}.ln_2"), f"{name}.mlp.c_fc"), approximate="tanh")
        x = x + product(inner, f"{name}.mlp.c_proj")
    return F.linear(norm(x, "ln_f"), weights["wte.weight"])


def run(dtype, first, tokens, targets):
    weights = {name: torch.from_numpy(value).requires_grad_() for name, value in first.items()}
    with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
        logits = logits_of(weights, tokens)
        loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
    scale = SCALE if dtype == torch.float16 else 1.0
    (loss * scale).backward()
    print(f"  {dtype}: loss {loss.item():.6f}")
    result = {"loss": numpy.array(loss.item()), "logits": logits.detach().float().numpy()}
    for name, weight in weights.items():
        gradient = weight.grad / scale
        if dtype != torch.float32:
            gradient = (gradient * 1024).half()
            assert torch.isfinite(gradient).all()
        result[f"gradient.{name}"] = gradient.numpy()
    return result


def arrays(random):
    weights = first_weights(random)
    mask = numpy.tril(numpy.ones((1, 1, CONTEXT, CONTEXT), numpy.float32))
    masks = {f"h.{layer}.attn.bias": mask for layer in range(LAYERS)}
    save_file(weights | masks, pathlib.Path(__file__).parent.parent / "gpt.safetensors")
    sequences = random.integers(0, VOCABULARY, (BATCH, CONTEXT + 1))
    tokens, targets = torch.from_numpy(sequences[:, :-1].copy()), torch.from_numpy(sequences[:, 1:].copy())
    result = {"tokens": tokens.numpy().astype(numpy.int32), "targets": targets.numpy().astype(numpy.int32)}
    for kind, dtype in [("float32", torch.float32), ("bfloat16", torch.bfloat16), ("float16", torch.float16)]:
        result.update({f"{kind}.{name}": value for name, value in run(dtype, weights, tokens, targets).items()})
    return result
