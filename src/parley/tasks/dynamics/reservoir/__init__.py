"""Echo-state networks: a fixed reservoir remembers what came before, and a read-out is learned from its states."""
