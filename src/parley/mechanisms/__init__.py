"""Noise: a bounded value in, a released value out."""

from parley.mechanisms.bounded import Bounded, Event, Norm
from parley.mechanisms.exponential import Exponential
from parley.mechanisms.extent import Extent
from parley.mechanisms.gaussian import Gaussian
from parley.mechanisms.geometric import Geometric
from parley.mechanisms.grid_geometric import GridGeometric
from parley.mechanisms.laplace import Laplace
from parley.mechanisms.mechanism import Mechanism
from parley.mechanisms.noise import FastNoise, Noise, SafeNoise
from parley.mechanisms.stable import Stable

__all__ = [
    "Bounded",
    "Event",
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
