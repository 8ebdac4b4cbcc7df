"""Noise laws that only tests need."""

import math

import numpy as np

from parley.privacy.accounting.pairs import Law

LAPLACE = Law(lambda z: -np.abs(z) - math.log(2), lambda z: 0.5 * np.exp(-z), reach=50.0)
