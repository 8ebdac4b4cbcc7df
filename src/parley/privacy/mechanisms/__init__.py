"""Noise: a bounded value in, a released value out."""

from parley.privacy.events import Norm
from parley.privacy.mechanisms.exponential import Exponential
from parley.privacy.mechanisms.gaussian import Gaussian
from parley.privacy.mechanisms.geometric import Geometric, GridGeometric
from parley.privacy.mechanisms.laplace import Laplace
from parley.privacy.mechanisms.mechanism import Bounded, Extent, Mechanism
from parley.privacy.mechanisms.noise import FastNoise, Noise, SafeNoise
from parley.privacy.mechanisms.stable import Stable

__all__ = [
    "Bounded",
    "Exponential",
    "Extent",
    "FastNoise",
    "Gaussian",
    "Geometric",
    "GridGeometric",
    "Laplace",
    "Mechanism",
    "Noise",
    "Norm",
    "SafeNoise",
    "Stable",
]
