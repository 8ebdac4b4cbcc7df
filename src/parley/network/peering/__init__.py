"""An owner's peer where there is no centre: what it says to its neighbours on the graph, and what it hears from
them."""
