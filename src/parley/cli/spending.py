"""What `--force` means, wherever budgets are spent."""

ANYWAY = (
    "release even what is forecast to be worse than the zero model or the public sample's own, or to be of use to no "
    "owner (items of ratings: worse than what owners learn alone), and where some people may have another ledger."
)
