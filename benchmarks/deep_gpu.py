"""Training speed of a convolutional network, and the overhead of each loss and head over plain BCE.

    python -m benchmarks.deep_gpu

Synthetic images with candidate labels are placed on the GPU beforehand, so that only training is
measured, in bfloat16. Every loss trains the same network on the same batches. The losses take
turns, one epoch each, so that changes of the clock rate affect all of them alike; the first epochs
warm up, and the median of the others is printed. It includes the closed-form step of the heads.
`--width 16` is a network so small that launching operations takes most of the time: the hardest
case. `--require 10` exits with 1 if `PartialMultiLabelLoss` with counts costs more than 10% over
BCE. Without a GPU, smaller sizes are measured on the CPU.
"""

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

try:
    import schirn  # noqa: F401
except ImportError:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from schirn.deep import Confidences, PartialMultiLabelLoss, SieveHead
from schirn.lab.rivals.losses import ROLE, SPLC, AsymmetricLoss, LargeLoss

Tensor = torch.Tensor
Step = Callable[[Tensor, Tensor, Tensor], Tensor]
COUNTS = "PartialMultiLabelLoss, counts"


def convnet(width: int, n_features: int) -> nn.Sequential:
    """Backbone of three convolutional stages, each halving the image, with one vector per image."""
    layers: list[nn.Module] = []
    channels = 3
    for stage in range(3):
        for _ in range(2):
            out = width * 2**stage
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
            channels = out
        layers.append(nn.MaxPool2d(2))
    pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, n_features), nn.ReLU()]
    return nn.Sequential(*layers, *pool)


def make_images(n: int, size: int, l: int, device: str) -> tuple[Tensor, Tensor]:
    """Images whose labels are bright patches, and candidates, some of them wrong."""
    generator = torch.Generator(device).manual_seed(0)
    truth = torch.rand(n, l, generator=generator, device=device) < 0.2
    images = torch.randn(n, 3, size, size, generator=generator, device=device)
    patch = max(2, size // 8)
    for j in range(l):
        row, column = divmod(j * patch, size)
        row = (row * patch) % (size - patch)
        column = min(column, size - patch)
        where = images[:, j % 3, row : row + patch, column : column + patch]
        where += 2 * truth[:, j, None, None]
    wrong = torch.rand(n, l, generator=generator, device=device) < 0.2
    return images, (truth | wrong).to(torch.uint8)


class Runner:
    """One network with one loss."""

    def __init__(self, name: str, args: argparse.Namespace, device: str):
        torch.manual_seed(0)
        n, l, h = args.images, args.labels, args.features
        self.device, self.args = device, args
        self.backbone = convnet(args.width, h).to(device, memory_format=torch.channels_last)
        self.linear = nn.Linear(h, l).to(device)
        self.end: Callable[[], None] = lambda: None
        self.learned: list[nn.Parameter] = []
        self.step = self._make_step(name, n, l, h)
        parameters = [*self.backbone.parameters(), *self.linear.parameters(), *self.learned]
        self.sgd = torch.optim.SGD(parameters, lr=0.01, momentum=0.9)

    def _make_step(self, name: str, n: int, l: int, h: int) -> Step:
        if name == "BCE":
            return lambda f, c, i: binary_cross_entropy_with_logits(self.linear(f), c.float())
        table = Confidences(n, l, dtype="float16")
        losses: dict[str, Callable[[], nn.Module]] = {
            "PartialMultiLabelLoss": lambda: PartialMultiLabelLoss(
                n, l, warm_up=1, confidences=table
            ),
            COUNTS: lambda: PartialMultiLabelLoss(n, l, warm_up=1, counts=True, confidences=table),
            "AsymmetricLoss": AsymmetricLoss,
            "SPLC": lambda: SPLC(n),
            "LargeLoss": lambda: LargeLoss(n),
            "ROLE": lambda: ROLE(n, l, expected=0.2 * l),
        }
        if name in losses:
            loss: Any = losses[name]().to(self.device)
            self.learned = list(loss.parameters())
            return lambda f, c, i: loss(self.linear(f), c, i)
        counts = "Bayes" not in name
        head = SieveHead(h, l, n, warm_up=1, confidences=table, counts=counts).to(self.device)
        head.linear, self.end = self.linear, head.end_epoch
        return lambda f, c, i: head.loss(f, c, i)

    def epoch(self, images: Tensor, candidates: Tensor, order: Tensor) -> float:
        """Train one epoch and return its time in seconds."""
        self._wait()
        start = time.perf_counter()
        for rows in order.split(self.args.batch_size):
            kind = self.device.partition(":")[0]
            with torch.autocast(kind, torch.bfloat16, enabled=self.args.precision == "bfloat16"):
                x = images[rows].contiguous(memory_format=torch.channels_last)
                loss = self.step(self.backbone(x), candidates[rows], rows)
            self.sgd.zero_grad(set_to_none=True)
            loss.backward()
            self.sgd.step()
        self.end()
        self._wait()
        return time.perf_counter() - start

    def _wait(self) -> None:
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()


NAMES = (
    "BCE",
    "PartialMultiLabelLoss",
    COUNTS,
    "SieveHead",
    "SieveHead, plain Bayes",
    "AsymmetricLoss",
    "SPLC",
    "LargeLoss",
    "ROLE",
)


def main() -> None:
    """Measure all losses and print a table."""
    there = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=50_000 if there else 512)
    parser.add_argument("--size", type=int, default=64 if there else 16)
    parser.add_argument("--labels", type=int, default=20)
    parser.add_argument("--width", type=int, default=64 if there else 8)
    parser.add_argument("--features", type=int, default=512 if there else 64)
    parser.add_argument("--batch-size", type=int, default=512 if there else 64)
    parser.add_argument("--epochs", type=int, default=6, help="per loss; the first two warm up")
    default = "bfloat16" if there else "float32"
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default=default)
    parser.add_argument("--device", default="cuda" if there else "cpu")
    parser.add_argument(
        "--require", type=float, metavar="PERCENT", help="most that counts may cost"
    )
    args = parser.parse_args()
    images, candidates = make_images(args.images, args.size, args.labels, args.device)
    if args.precision == "bfloat16":
        images = images.to(torch.bfloat16)
    runners = {name: Runner(name, args, args.device) for name in NAMES}
    times: dict[str, list[float]] = {name: [] for name in NAMES}
    for epoch in range(args.epochs):
        generator = torch.Generator(args.device).manual_seed(epoch)
        order = torch.randperm(args.images, generator=generator, device=args.device)
        for name, runner in runners.items():
            times[name].append(runner.epoch(images, candidates, order))
    on_gpu = args.device.startswith("cuda")
    name = torch.cuda.get_device_name() if on_gpu else platform.machine()
    print(
        f"{args.device} ({name}), torch {torch.__version__}, {args.images:,} images of "
        f"{args.size} x {args.size}, {args.labels} labels, {args.features} features, batch "
        f"{args.batch_size}, {args.precision}; median of {args.epochs - 2} epochs\n"
    )
    print("| loss | images per second | over BCE |\n|---|--:|--:|")
    plain = statistics.median(times["BCE"][2:])
    for name in NAMES:
        middle = statistics.median(times[name][2:])
        more = "" if name == "BCE" else f"{100 * (middle / plain - 1):+.1f}%"
        print(f"| {name} | {args.images / middle:,.0f} | {more} |")
    if on_gpu:
        print(f"\nPeak memory of the device: {torch.cuda.max_memory_allocated() / 1e9:.1f} GB")
    cost = 100 * (statistics.median(times[COUNTS][2:]) / plain - 1)
    if args.require is not None and cost > args.require:
        sys.exit(f"{COUNTS}: {cost:+.1f}% over BCE, more than {args.require:g}%")


if __name__ == "__main__":
    main()
