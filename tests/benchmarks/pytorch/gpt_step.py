"""Training steps of a GPT-2 in PyTorch, one for each line that comes in. Started by pytorch_peer.hpp.

    gpt_step.py TYPE LAYERS WIDTH HEADS LENGTH BATCH VOCABULARY THREADS

Answers "ready", then to each line "step" its seconds, and to "memory" by how many bytes the process has grown at most
since the model was made. A step is what examples/gpt does: loss, gradients, clipping at norm 1, AdamW; autocast for
16 bits, with a GradScaler for float16.
"""

import sys
import time

try:
    import torch
except ImportError:
    sys.exit(0)
import torch.nn.functional as F
from torch import nn

kind = sys.argv[1]
LAYERS, WIDTH, HEADS, LENGTH, BATCH, VOCABULARY, THREADS = map(int, sys.argv[2:])
DTYPE = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[kind]
torch.set_num_threads(THREADS)
torch.manual_seed(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.inner, self.outer = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        def heads(part):
            return part.view(*part.shape[:-1], HEADS, WIDTH // HEADS).transpose(1, 2)

        q, k, v = self.attention(self.ln_1(x)).split(WIDTH, dim=-1)
        attended = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(x.shape))
        return x + self.outer(F.gelu(self.inner(self.ln_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


def peak_bytes():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))


before = peak_bytes()
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
scaler = torch.amp.GradScaler("cpu", enabled=kind == "float16")
sequences = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1))
tokens, targets = sequences[:, :-1].contiguous(), sequences[:, 1:].contiguous()


def step():
    with torch.autocast("cpu", dtype=DTYPE, enabled=kind != "float32"):
        logits = model(tokens)
        loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return loss.item()


step()
print("ready", torch.__version__, flush=True)
for line in sys.stdin:
    if line.strip() == "memory":
        print(peak_bytes() - before, flush=True)
        continue
    start = time.perf_counter()
    step()
    print(time.perf_counter() - start, flush=True)
