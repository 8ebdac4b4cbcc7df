"""Echo-state networks: a fixed reservoir remembers the past, and a read-out is learned from its states."""
