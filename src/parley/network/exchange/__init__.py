"""How queries reach owners."""

from parley.network.exchange.in_process import Exchange, InProcess

__all__ = ["Exchange", "InProcess"]
