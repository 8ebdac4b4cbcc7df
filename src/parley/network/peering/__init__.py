"""An owner's peer where there is no centre: what it says to its neighbours and hears from them."""
