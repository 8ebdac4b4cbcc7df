"""Sums and noise in three shares, computed by three hosts together and seen by none of them. (Two hosts hold sums in
two shares. Each adds noise of its own, as `network.hosting.host` says, or both draw one noise: `paired_noise`.)

Whatever is shared is x = x0 + x1 + x2 modulo 2^64 (for bits, their exclusive or); host i holds shares i and i + 1.
Replicated shares and the multiplication are those of Araki, Furukawa, Lindell, Nof and Ohara (2016).

Formal guarantee: against one host that follows the protocol and is curious (semi-honest), everything it sees (its own
two keys, its shares, every message it receives) has the same distribution whatever the owners' answers and the noise
are, if AES is a pseudo-random function. With the learner on its side, and any number of owners that are not the other
two hosts, it learns the opened sum, and nothing else about the other owners' answers. Not promised: two hosts together
hold all three shares and see every answer and the noise, be they owners or not. A host that deviates while noise is
drawn can shift the sum and read parts of the noise (the opening notices wrong shares, not wrong ANDs), unless the ANDs
are verified (`verified`). An owner can send whatever the ring holds, unless the hosts check it (`bounds`).
"""
