"""What PyTorch does where halfstep does something else on purpose: a number for each row of the table of
docs/coming-from-pytorch.md."""

import warnings

import numpy
import torch
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim import lr_scheduler

SEED = 20260707


def raises(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def clipped(gradient, max_norm):
    weight = torch.zeros(len(gradient))
    weight.grad = torch.tensor(gradient)
    norm = clip_grad_norm_([weight], max_norm)
    return norm.item(), weight.grad.numpy()


def clipped_by(gradient, *clips):
    weight = torch.zeros(len(gradient))
    weight.grad = torch.tensor(gradient)
    for clip in clips:
        clip([weight], 1.0)
    return weight.grad.numpy()


def scaled_sgd(scale, lr=1.0):
    weight = torch.zeros(1, requires_grad=True)
    return weight, torch.optim.SGD([weight], lr=lr), torch.amp.GradScaler("cpu", init_scale=scale)


def window(weight, optimizer, scaler, inputs):
    optimizer.zero_grad()
    scaler.scale((weight * torch.tensor(inputs)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def unscaling_overflows():
    run = scaled_sgd(2.0**-10)
    window(*run, [3e38, 3e38])
    return run[0].item()


def scale_after(overflows):
    run = scaled_sgd(65536.0)
    for _ in range(overflows):
        window(*run, [float("inf")])
    return run[2].get_scale()


def mean_of_means():
    weight, optimizer, _ = scaled_sgd(1.0)
    for micro_batch in ([1.0, 2.0, 3.0], [10.0]):
        ((weight * torch.tensor(micro_batch)).mean() / 2).backward()
    optimizer.step()
    return weight.item()


def step_without_gradients():
    weight, optimizer, scaler = scaled_sgd(1024.0)
    scaler.scale(weight.sum())
    scaler.step(optimizer)


def weight_gradient_in_float16():
    weight = torch.zeros(1, 1, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.float16):
        y = F.linear(torch.ones(64, 1), weight)
    y.backward(torch.full((64, 1), 2048.0, dtype=torch.float16))
    return weight.grad.item()


def nan_gradient_without_scaler():
    weight, optimizer, _ = scaled_sgd(1.0)
    (weight * float("nan")).sum().backward()
    optimizer.step()
    return weight.item()


def rates_of_updates():
    weight, optimizer, scaler = scaled_sgd(1024.0)
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)
    rates = []
    optimizer.register_step_post_hook(lambda *_: rates.append(optimizer.param_groups[0]["lr"]))
    for gradient in (float("inf"), float("inf"), 1.0, 1.0):
        window(weight, optimizer, scaler, [gradient])
        schedule.step()
    return rates


def adam_without_epsilon():
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.Adam([weight], eps=0.0)
    weight.grad = torch.zeros(1)
    optimizer.step()
    return weight.item()


def rate_at(make, position, base=1.0):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=base)
    schedule = make(optimizer)
    for _ in range(position):
        optimizer.step()
        schedule.step()
    return optimizer.param_groups[0]["lr"]


def first_gradient_in_window(number, make):
    """What the first update makes of a parameter whose gradient first comes in this window, another's in all."""
    first, late = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimizer = make([first, late])
    for i in range(1, number + 1):
        first.grad = torch.ones(1)
        late.grad = torch.ones(1) if i == number else None
        optimizer.step()
    return late.item()


def scaled_gradient_of_three():
    weight = torch.zeros(1, dtype=torch.float16, requires_grad=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale((weight * torch.full((3,), 50.0, dtype=torch.float16)).float().mean()).backward()
    return weight.grad.item()


def arrays(random):
    del random
    warnings.simplefilter("ignore")
    large = numpy.array([1e30, 2e30, -2e30], numpy.float32)
    large_norm, large_clipped = clipped(large, 1.0)
    result = {
        "large.gradients": large,
        "large.norm": large_norm,
        "large.clipped": large_clipped,
        "weight_where_unscaling_overflows": unscaling_overflows(),
        "scale_after_100_overflows": scale_after(100),
        "scale_after_an_infinite_loss": scale_after(1),
        "weight_after_micro_batches_of_3_and_1": mean_of_means(),
        "loss_with_all_rows_ignored": F.cross_entropy(torch.zeros(2, 3), torch.tensor([-100, -100])).item(),
        "weight_gradient_in_float16": weight_gradient_in_float16(),
        "weight_after_nan_without_scaler": nan_gradient_without_scaler(),
        "rates_of_updates": rates_of_updates(),
        "clipped_by_minus_one": clipped([3.0, 4.0], -1.0)[1],
        "clipped_by_zero": clipped([3.0, 4.0], 0.0)[1],
        "clipped_by_nan": clipped([3.0, 4.0], float("nan"))[1],
        "clipped_by_norm_then_value": clipped_by([3.0, 4.0], clip_grad_norm_, clip_grad_value_),
        "clipped_by_value_then_norm": clipped_by([3.0, 4.0], clip_grad_value_, clip_grad_norm_),
        "dropped_with_probability_1": F.dropout(torch.tensor([1.0, -2.0, 3.0]), 1.0).numpy(),
        "adam_without_epsilon": adam_without_epsilon(),
        "cosine_100_at_150": rate_at(lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=100), 150),
        "first_rate_of_linear_warmup": rate_at(lambda o: lr_scheduler.LinearLR(o, total_iters=100), 0),
        "last_rate_of_linear_warmup": rate_at(lambda o: lr_scheduler.LinearLR(o, total_iters=100), 100),
        "adam_late_first_step": first_gradient_in_window(4, lambda p: torch.optim.Adam(p, lr=1.0)),
        "sgd_late_first_step": first_gradient_in_window(
            4, lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9, dampening=0.5)),
        "scaled_gradient_of_three": scaled_gradient_of_three(),
    }
    result = {name: numpy.asarray(value, numpy.float32) for name, value in result.items()}
    errors = {
        "error.step_without_gradients": raises(step_without_gradients),
        "error.one_cycle_past_its_end": raises(
            lambda: rate_at(lambda o: lr_scheduler.OneCycleLR(o, 1.0, total_steps=10), 11)),
    }
    result.update({name: numpy.frombuffer(text.encode(), numpy.uint8) for name, text in errors.items()})
    return result
