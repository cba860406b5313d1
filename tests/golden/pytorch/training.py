"""200 windows of training a small MLP: float32, float16 autocast with GradScaler, bfloat16 autocast.

    output(gelu(hidden(x))), hidden without bias; AdamW with OneCycleLR, clip_grad_norm_, a learning rate of its own for
    the output layer, no decay on its bias; the schedule steps when the optimizer did.

The inputs are small and the output weights large, so that of all float16 gradients those of the activations are the
largest: PyTorch rounds the gradients of weights to float16 too, where they could overflow; halfstep keeps them in
float32.
"""

import numpy
import torch
import torch.nn.functional as F

SEED = 20260706
FEATURES, WIDTH, CLASSES = 16, 32, 4
BATCHES, ROWS, WINDOWS = 8, 64, 200
PEAK, OUTPUT_RATE, DECAY, MAX_NORM = 0.02, 16.0, 0.01, 0.5
INITIAL_SCALE, GROWTH_INTERVAL = 2.0**24, 12
LARGEST = 65520.0  # from here on float16 rounds to infinity


class Mlp(torch.nn.Module):
    def __init__(self, first):
        super().__init__()
        self.hidden = torch.nn.Linear(FEATURES, WIDTH, bias=False)
        self.output = torch.nn.Linear(WIDTH, CLASSES)
        self.load_state_dict({name: torch.from_numpy(value) for name, value in first.items()})

    def forward(self, x):
        self.activations = [F.gelu(self.hidden(x))]
        return self.output(self.activations[0])


def train(dtype, first, inputs, labels):
    model = Mlp(first)
    groups = [{"params": [model.hidden.weight]}, {"params": [model.output.weight], "lr": PEAK * OUTPUT_RATE},
              {"params": [model.output.bias], "lr": PEAK * OUTPUT_RATE, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=PEAK, weight_decay=DECAY, foreach=False)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [PEAK, PEAK * OUTPUT_RATE, PEAK * OUTPUT_RATE],
                                                   total_steps=WINDOWS + 1, cycle_momentum=False)
    scaler = torch.amp.GradScaler("cpu", init_scale=INITIAL_SCALE, growth_interval=GROWTH_INTERVAL,
                                  enabled=dtype == torch.float16)
    losses, scales, applied = [], [], []
    for window in range(WINDOWS):
        x, y = inputs[window % BATCHES], labels[window % BATCHES]
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            loss = F.cross_entropy(model(x), y)
        if dtype == torch.float16:
            check_margin(model, loss, scaler.get_scale())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() >= scale
        if stepped:
            schedule.step()
        losses.append(loss.item())
        scales.append(scale)
        applied.append(stepped)
    accuracy = (model(inputs.reshape(-1, FEATURES)).argmax(1) == labels.reshape(-1)).float().mean().item()
    print(f"  {dtype}: loss {losses[0]:.4f} to {losses[-1]:.4f}, accuracy {accuracy:.3f}, "
          f"{applied.count(False)} skipped, scale {min(scales):g} to {max(scales):g}")
    final = {f"final.{name}": value.detach().numpy().copy() for name, value in model.state_dict().items()}
    return {"losses": numpy.array(losses), "scales": numpy.array(scales, numpy.float32),
            "applied": numpy.array(applied, numpy.uint8), **final}


def check_margin(model, loss, scale):
    """No window may be close to the edge of overflow, where the last bit of a sum would decide about a skip; and the
    activations' gradients must be what overflows."""
    small = scale / 2**12
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(loss * small, [*model.activations, *parameters], retain_graph=True)
    activations, *weights = (gradient.abs().max().item() * 2**12 for gradient in gradients)
    assert not 0.97 * LARGEST < activations < 1.03 * LARGEST, (activations, scale)
    assert activations >= LARGEST or max(weights) < 0.9 * LARGEST, (activations, weights, scale)


def arrays(random):
    x = (random.integers(-128, 129, (BATCHES * ROWS, FEATURES)) / 1024).astype(numpy.float32)
    teacher = random.standard_normal((FEATURES, CLASSES))
    scores = x @ teacher + 0.08 * random.standard_normal((len(x), CLASSES))
    labels = scores.argmax(1)
    bound = FEATURES**-0.5
    first = {"hidden.weight": random.uniform(-bound, bound, (WIDTH, FEATURES)).astype(numpy.float32),
             "output.weight": random.uniform(-16, 16, (CLASSES, WIDTH)).astype(numpy.float32),
             "output.bias": numpy.zeros(CLASSES, numpy.float32)}
    result = {"inputs": x.reshape(BATCHES, ROWS, FEATURES).astype(numpy.float16),
              "labels": labels.reshape(BATCHES, ROWS).astype(numpy.int32),
              "peak": numpy.array(PEAK), "output_rate": numpy.array(OUTPUT_RATE), "decay": numpy.array(DECAY),
              "max_norm": numpy.array(MAX_NORM), "initial_scale": numpy.array(INITIAL_SCALE),
              "growth_interval": numpy.array(GROWTH_INTERVAL),
              **{f"first.{name}": value for name, value in first.items()}}
    inputs = torch.from_numpy(x).reshape(BATCHES, ROWS, FEATURES)
    targets = torch.from_numpy(labels).reshape(BATCHES, ROWS)
    for kind, dtype in [("float32", torch.float32), ("float16", torch.float16), ("bfloat16", torch.bfloat16)]:
        run = train(dtype, first, inputs, targets)
        result.update({f"{kind}.{name}": value for name, value in run.items()})
    return result
