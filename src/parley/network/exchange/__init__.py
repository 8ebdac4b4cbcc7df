"""How questions reach owners and answers come back: in this process, over gRPC, over Flower, through hosts."""

from parley.network.exchange.in_process import Exchange, InProcess

__all__ = ["MAX_MESSAGE_BYTES", "Exchange", "InProcess"]

MAX_MESSAGE_BYTES = 1 << 24  # bytes that any party takes at once: two million numbers
