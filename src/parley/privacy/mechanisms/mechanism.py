"""What every mechanism is: noise of a known law for values of a known sensitivity."""

from typing import Protocol

from parley.privacy.events import Event, Norm
from parley.privacy.mechanisms.bounded import Bounded
from parley.privacy.mechanisms.noise import Noise
from parley.validate import Floats


class Mechanism(Protocol):
    """Bound, then noise: `release` takes a value that knows its own
    sensitivity, and adds noise that was calibrated for at least that."""

    @property
    def norm(self) -> Norm:
        """In which a value has to be bounded."""
        ...

    @property
    def sensitivity(self) -> float:
        """For which the noise is calibrated."""
        ...

    @property
    def noise_scale(self) -> float:
        """The parameter of the noise's law: Laplace's scale, the Gaussian's sigma."""
        ...

    @property
    def variance(self) -> float:
        """Of the noise in one coordinate."""
        ...

    @property
    def event(self) -> Event:
        """The fact that the ledger stores; accountants interpret it."""
        ...

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """The value plus noise; refused (GuaranteeError) if it is not bounded as the noise was calibrated for."""
        ...

    def rounding(self, coordinates: int) -> float:
        """How far apart the sampler's grid moves two values of so
        many coordinates, in `norm`: covered beside the sensitivity."""
        ...

    def tail(self, probability: float, coordinates: int) -> float:
        """How far the noise goes in the worst of so many coordinates, but for this probability."""
        ...

    def norm_tail(self, probability: float, coordinates: int) -> float:
        """How much the noise of so many coordinates measures in `norm`, but for this probability."""
        ...
