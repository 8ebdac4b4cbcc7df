"""FedProx (Z section 5.4.2; Li et al. 2020): local steps that are held back, and owners that do part of the work."""

from dataclasses import dataclass

from parley.learning.algorithms.federated_averaging import FederatedAveraging


@dataclass(frozen=True)
class FedProx(FederatedAveraging):
    """Federated averaging of local steps on f_l(w) + `proximal`/2 |w - theta[k]|^2.

    A slow owner stops early by `owners.local_steps`. On costs h_l/2 |theta - m_l|^2 it ends, without noise, at the mean
    of the m_l weighted by p h_l (1 - (1 - rho (h_l + mu))^s_l)/(h_l + mu): the stronger the pull, the nearer to the
    optimum, and the slower.
    """
