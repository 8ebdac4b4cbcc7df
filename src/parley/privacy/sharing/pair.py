"""One of two hosts that compute with shared bits: x = x0 xor x1, host i holds share i. Exclusive or is free. An AND
costs two random transfers, one in each direction (32 bytes), and two bits each way (Beaver's triples; Goldreich, Micali
and Wigderson).

Formal guarantee: against one host that follows the protocol and is curious, everything it sees has the same
distribution whatever the other host's shares are (under the assumptions of `oblivious`). Proof. What is opened for x
AND y is x xor a and y xor b, where the other host's shares of a and b are uniform and used once. Its b is its choice in
a transfer that this host sends, and hidden from it; its a is the exclusive or of the two strings of a transfer of which
this host receives one. Not promised: a host that departs from the protocol can learn or shift the result.
"""

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from parley.errors import ExchangeError
from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.sharing.circuits import Circuit, Round, run_circuit
from parley.privacy.sharing.oblivious import BaseTransfers, DrawBytes, Receiver, Sender
from parley.privacy.sharing.party import Channel
from parley.privacy.sharing.ring import KEY_BYTES, Keystream

PIECE_WORDS = 2_560  # words of triples made at a time: a message has less than the 4 MiB that any host takes

T = TypeVar("T")


class Pair:
    """A host with its ends of the transfers. Both hosts call the same methods with the same shapes in the same order.
    After any failure the hosts may be out of step, so the pair refuses to go on."""

    def __init__(self, channel: Channel, ends: tuple[Sender, Receiver], private: Keystream) -> None:
        self.index = channel.index
        self._channel, self._ends, self._private = channel, ends, private
        self._sent, self._received, self._broken = 0, 0, False

    def random(self, *shape: int) -> Words:
        """Return this host's shares of uniform words that nobody knows. Nothing is sent."""
        return self._private.words(*shape)

    def evaluate(self, circuit: Circuit, inputs: Words) -> Words:
        """Return this host's shares of the outputs' planes [outputs, words] from those of the inputs' [inputs, words].
        All transfers are made first."""
        lanes, used = inputs.shape[1], 0
        a, b, c = (each.reshape(circuit.gates, lanes) for each in self._triples(circuit.gates * lanes))
        wires = np.empty((circuit.wires + 1, lanes), dtype=np.uint64)
        wires[: circuit.inputs] = inputs

        def conjunctions(step: Round, shares: Sequence[Words]) -> None:
            nonlocal used
            (share,), now = shares, slice(used, used + step.left.size)
            used += step.left.size
            masked = np.stack([share[step.left] ^ a[now], share[step.right] ^ b[now]])
            d, e = masked ^ self._swap(masked)
            made = c[now] ^ (d & b[now]) ^ (e & a[now])
            share[step.start : step.start + step.left.size] = made ^ (d & e) if self.index == 0 else made

        (outputs,) = self._run_once(lambda: run_circuit(circuit, [wires], [self.index == 0], conjunctions))
        return outputs

    def weighted_sum(self, planes: Words, weights: Words) -> Words:
        """Return this host's share of sum over k of weights[k] bit_k modulo 2^64 in each lane, from its shares of the
        bits' planes [n, words].

        bit = x0 + x1 - 2 x0 x1. Host 0 knows x0, host 1 chooses by x1 in a transfer of m0 or m1, and is sent m0 - m1 -
        2 w x0, which m1 hides where it chose 0: its string, plus that where it chose 1, is m0 - 2 w x0 x1.
        """
        act = self._offer if self.index == 0 else self._choose
        return self._run_once(lambda: act(planes, weights))

    def give_up(self) -> None:
        """Use this pair no more: a protocol was left half-way."""
        self._broken = True

    def _offer(self, planes: Words, weights: Words) -> Words:
        own = _bits(planes)
        strings = self._ends[0].extend(self._receive(128 * planes.size).reshape(128, -1))
        flips = _bits(self._receive(planes.size).reshape(planes.shape)).astype(np.bool_)
        first, second = (each[:, 1].reshape(own.shape) for each in (strings.first, strings.second))
        by_zero, by_one = np.where(flips, second, first), np.where(flips, first, second)
        own *= weights[:, None]
        self._send(by_zero - by_one - np.uint64(2) * own)
        return np.asarray((own - by_zero).sum(axis=0, dtype=np.uint64))

    def _choose(self, planes: Words, weights: Words) -> Words:
        own, choices = _bits(planes), self.random(planes.size)
        columns, strings = self._ends[1].extend(choices)
        self._send(columns)
        self._send(planes.reshape(-1) ^ choices)
        held = strings[:, 1].reshape(own.shape)
        moved = self._receive(own.size).reshape(own.shape)
        return np.asarray((weights[:, None] * own + held + own * moved).sum(axis=0, dtype=np.uint64))

    def _triples(self, words: int) -> tuple[Words, Words, Words]:
        """Return this host's shares of a, b and c = a AND b, uniform and used once."""

        def act() -> list[tuple[Words, Words, Words]]:
            return [self._some_triples(min(PIECE_WORDS, words - start)) for start in range(0, words, PIECE_WORDS)]

        a, b, c = (np.concatenate(each) for each in zip(*self._run_once(act), strict=True))
        return a, b, c

    def _some_triples(self, words: int) -> tuple[Words, Words, Words]:
        b = self.random(words)
        columns, chosen = self._ends[1].extend(b)
        strings = self._ends[0].extend(self._swap(columns))
        first, second, received = (_low_bits(each) for each in (strings.first, strings.second, chosen))
        a = first ^ second
        return a, b, (a & b) ^ first ^ received

    def _swap(self, words: Words) -> Words:
        self._send(words)
        return self._receive(words.size).reshape(words.shape)

    def _send(self, words: Words) -> None:
        self._sent += 1
        label = self._sent.to_bytes(8, "little")
        self._channel.send(1 - self.index, b"".join((label, np.ascontiguousarray(words, dtype="<u8").data)))

    def _receive(self, words: int) -> Words:
        self._received += 1
        payload = self._channel.receive(1 - self.index)
        if len(payload) != 8 * (words + 1) or payload[:8] != self._received.to_bytes(8, "little"):
            raise ExchangeError(f"host {1 - self.index}: the host sent a wrong message; start the run again")
        return np.frombuffer(payload, dtype="<u8", offset=8)

    def _run_once(self, act: Callable[[], T]) -> T:
        if self._broken:
            raise ExchangeError(f"host {self.index}: an earlier protocol failed; begin a new session")
        self._broken = True
        result = act()
        self._broken = False
        return result


def agree_pair(channel: Channel, random: DrawBytes = os.urandom) -> Pair:
    """Make the first transfers with the other host, over a channel that nobody else reads."""
    base = BaseTransfers(channel.index, random)
    channel.send(1 - channel.index, base.message)
    return Pair(channel, base.streams(channel.receive(1 - channel.index)), Keystream(random(KEY_BYTES)))


def _bits(planes: Words) -> Words:
    """Return the bits of planes [n, words] as words [n, 64 words]."""
    flat = np.ascontiguousarray(planes, dtype="<u8").view(np.uint8)
    return np.unpackbits(flat, axis=-1, bitorder="little").astype(np.uint64)


def _low_bits(rows: Words) -> Words:
    """Return the lowest bit of each row [64 words, 2], 64 a word."""
    return np.packbits((rows[:, 0] & np.uint64(1)).astype(np.uint8), bitorder="little").view("<u8").astype(np.uint64)
