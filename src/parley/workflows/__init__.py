"""What a user does, each as one function: draft, plan, forecast, negotiate, simulate, release, score, refine, audit.

A workflow takes plain values, makes its checks in one order, asks a `Person` where a person must decide, and returns
one frozen report object, with `to_json()` where its command has --json. Commands, the studio and notebooks show report
objects and compute nothing: one order of checks, in one place, so two doors cannot disagree.

Formal guarantee: none of its own. Every refusal comes before anything is spent, and a report says by `inside` whether
it was computed from private rows without safe noise.
"""
