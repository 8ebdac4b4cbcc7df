"""An owner: what it answers, its ledger, and what accepting means."""
