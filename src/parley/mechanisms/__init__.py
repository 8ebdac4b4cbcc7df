"""Noise: a bounded value in, a released value out."""

from parley.mechanisms.bounded import Bounded, Norm
from parley.mechanisms.laplace import Laplace
from parley.mechanisms.noise import FastNoise, Noise, SafeNoise

__all__ = ["Bounded", "FastNoise", "Laplace", "Noise", "Norm", "SafeNoise"]
