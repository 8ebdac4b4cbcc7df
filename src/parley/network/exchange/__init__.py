"""How questions reach owners and answers come back: in this process, over gRPC, over Flower, through hosts."""

from parley.network.exchange.in_process import Exchange, InProcess

__all__ = ["Exchange", "InProcess"]
