"""Tables about the same people, matched by three hosts who see neither the people nor which of them match.

`keyed_rows` says what is computed, in the open; `packed_rows` how rows are shared; `key_order` that no key comes twice;
`dummies` what hides the number of matches; `aes` how keys become tags; `row_values` how values become words and rows
keep their clip; `match` puts these together and proves what a host learns.
"""
