"""How queries reach owners."""

from parley.exchange.in_process import Exchange, InProcess

__all__ = ["Exchange", "InProcess"]
