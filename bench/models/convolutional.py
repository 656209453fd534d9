"""Two networks with the operators of detectors and of image-to-image models, small."""

import torch
from torch import Tensor, nn
from torch.nn import functional


def _conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.SiLU(),
    )


class Bottlenecks(nn.Module):
    """Splits channels, passes one half through residual blocks and joins every step's output."""

    def __init__(self, inputs: int, outputs: int, count: int, *, residual: bool) -> None:
        super().__init__()
        half = outputs // 2
        self.enter = _conv(inputs, outputs, 1)
        self.leave = _conv((2 + count) * half, outputs, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(_conv(half, half), _conv(half, half)) for _ in range(count)
        )
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.enter(x).chunk(2, 1))
        for block in self.blocks:
            step = block(parts[-1])
            parts.append(parts[-1] + step if self.residual else step)
        return self.leave(torch.cat(parts, 1))


class PooledPyramid(nn.Module):
    """Joins one maximum, taken three times over."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enter = _conv(channels, channels // 2, 1)
        self.leave = _conv(2 * channels, channels, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class Head(nn.Module):
    """The head of one scale: distributions of the distances to a box's four sides, and classes."""

    def __init__(self, inputs: int, classes: int, bins: int) -> None:
        super().__init__()
        self.box = nn.Sequential(_conv(inputs, 64), _conv(64, 64), nn.Conv2d(64, 4 * bins, 1))
        self.score = nn.Sequential(_conv(inputs, 64), _conv(64, 64), nn.Conv2d(64, classes, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.box(x).flatten(2), self.score(x).flatten(2)


class Detector(nn.Module):
    """Detects in the manner of YOLOv8n: three scales, a path down and up, boxes from
    distributions."""

    STRIDES = (8, 16, 32)

    def __init__(self, classes: int = 20, bins: int = 16, side: int = 320) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _conv(3, 16, stride=2), _conv(16, 32, stride=2), Bottlenecks(32, 32, 1, residual=True)
        )
        self.small = nn.Sequential(_conv(32, 64, stride=2), Bottlenecks(64, 64, 2, residual=True))
        self.middle = nn.Sequential(
            _conv(64, 128, stride=2), Bottlenecks(128, 128, 2, residual=True)
        )
        self.large = nn.Sequential(
            _conv(128, 256, stride=2), Bottlenecks(256, 256, 1, residual=True), PooledPyramid(256)
        )
        self.up_middle = Bottlenecks(384, 128, 1, residual=False)
        self.up_small = Bottlenecks(192, 64, 1, residual=False)
        self.down_middle = _conv(64, 64, stride=2)
        self.out_middle = Bottlenecks(192, 128, 1, residual=False)
        self.down_large = _conv(128, 128, stride=2)
        self.out_large = Bottlenecks(384, 256, 1, residual=False)
        self.heads = nn.ModuleList(Head(channels, classes, bins) for channels in (64, 128, 256))
        self.bins = bins
        places, strides = self._grid(side)
        self.register_buffer("places", places)
        self.register_buffer("strides", strides)

    def _grid(self, side: int) -> tuple[Tensor, Tensor]:
        """Centres of the cells of all scales, and their strides."""
        places, strides = [], []
        for stride in self.STRIDES:
            steps = torch.arange(side // stride) + 0.5
            y, x = torch.meshgrid(steps, steps, indexing="ij")
            places.append(torch.stack((x, y)).flatten(1))
            strides.append(torch.full((1, x.numel()), float(stride)))
        return torch.cat(places, 1), torch.cat(strides, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        small = self.small(self.stem(x))
        middle = self.middle(small)
        large = self.large(middle)
        middle = self.up_middle(torch.cat((_twice(large), middle), 1))
        small = self.up_small(torch.cat((_twice(middle), small), 1))
        middle = self.out_middle(torch.cat((self.down_middle(small), middle), 1))
        large = self.out_large(torch.cat((self.down_large(middle), large), 1))
        found = [head(each) for head, each in zip(self.heads, (small, middle, large), strict=True)]
        box = torch.cat([each for each, _ in found], 2)
        score = torch.cat([each for _, each in found], 2)
        bins = box.view(box.shape[0], 4, self.bins, box.shape[2]).transpose(1, 2).softmax(1)
        weights = torch.arange(self.bins, dtype=torch.float32).view(1, -1, 1, 1)
        left, right = (bins * weights).sum(1).chunk(2, 1)
        low, high = self.places - left, self.places + right
        boxes = torch.cat(((low + high) / 2, high - low), 1) * self.strides
        return boxes, score.sigmoid()


def _twice(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")


class _Level(nn.Sequential):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1, padding_mode="reflect"),
            nn.GroupNorm(8, outputs),
            nn.GELU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.InstanceNorm2d(outputs, affine=True),
            nn.LeakyReLU(0.1),
        )


class UNet(nn.Module):
    """Group and instance norm, transposed convolution, bilinear resize, joins across levels."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList((_Level(3, 32), _Level(32, 64), _Level(64, 128)))
        self.bottom = _Level(128, 128)
        self.grow = nn.ConvTranspose2d(128, 128, 2, 2)
        self.up = nn.ModuleList((_Level(256, 64), _Level(128, 32), _Level(64, 32)))
        self.out = nn.Conv2d(32, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for level in self.down:
            x = level(x)
            kept.append(x)
            x = functional.avg_pool2d(x, 2)
        x = self.bottom(x)
        for number, level in enumerate(self.up):
            wide = (
                self.grow(x)
                if number == 0
                else functional.interpolate(
                    x, scale_factor=2.0, mode="bilinear", align_corners=number == 2
                )
            )
            x = level(torch.cat((wide, kept.pop()), 1))
        return torch.tanh(self.out(x))
