"""The user's tasks, each as one function: draft, plan, forecast, negotiate, simulate, release, score, refine, audit.

A workflow takes plain values, makes its checks in one order, asks a `Person` for decisions, and returns one frozen
report object. Commands, the studio and notebooks show reports and compute nothing, so they cannot disagree.

Formal guarantee: none of its own. Every refusal comes before anything is spent, and a report says by `inside` whether
it was computed from private rows without safe noise.
"""
