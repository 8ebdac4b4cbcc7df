"""The rules of the algorithms that terms can name, one file each.

`learning/algorithms/` has what they do, by the same names.
"""
