"""The colours of the page, for pictures: the light ramp and the colours of classes of `page/palette.js`.

A ramp runs through a few stops (lightness, chroma, hue in degrees) in OKLab, a space in which equal steps look equal;
lightness falls along it, so it can be read in grey and without seeing red or green.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

SEQUENTIAL = (
    (0.975, 0.008, 100),
    (0.92, 0.055, 130),
    (0.8, 0.085, 185),
    (0.63, 0.105, 230),
    (0.45, 0.125, 258),
    (0.27, 0.105, 272),
)
CLASSES = (
    (0.505, 0.189, 271),
    (0.689, 0.114, 59),
    (0.746, 0.125, 198),
    (0.565, 0.18, 349),
    (0.513, 0.104, 93),
    (0.684, 0.184, 297),
    (0.379, 0.139, 14),
    (0.362, 0.158, 301),
)
STEPS = 256
CONES = numpy.array(
    [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.291485548]]
)
LIGHT = numpy.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.707614701],
    ]
)


def ramp() -> NDArray[numpy.float64]:
    """Red, green and blue in 0 … 1 of each step, from nothing to the largest (256, 3)."""
    stops = _lab(SEQUENTIAL)
    along = numpy.linspace(0, len(stops) - 1, STEPS)
    lab = numpy.stack([numpy.interp(along, range(len(stops)), axis) for axis in stops.T], 1)
    return _on_screen((lab @ CONES.T) ** 3 @ LIGHT.T)


def distinct() -> NDArray[numpy.float64]:
    """Red, green and blue of colours that are easy to tell apart (8, 3)."""
    return _on_screen((_lab(CLASSES) @ CONES.T) ** 3 @ LIGHT.T)


def _lab(stops: Sequence[tuple[float, float, float]]) -> NDArray[numpy.float64]:
    turned = map(_turned, stops)
    return numpy.array([(light, chroma * math.cos(hue), chroma * math.sin(hue)) for light, chroma, hue in turned])


def _turned(stop: tuple[float, float, float]) -> tuple[float, float, float]:
    return stop[0], stop[1], math.radians(stop[2])


def _on_screen(light: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """Linear light on the curve of a screen (sRGB)."""
    curve = 1.055 * numpy.maximum(light, 0.0031308) ** (1 / 2.4) - 0.055
    found: NDArray[numpy.float64] = numpy.where(light <= 0.0031308, 12.92 * light, curve).clip(0, 1)
    return found
