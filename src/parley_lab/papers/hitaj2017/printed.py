"""What of Hitaj et al. is shown here: the attack on digits, not its figures one by one."""

from parley_lab.papers.printed import Printed

PRINTED = (
    Printed(
        "attack",
        "Hitaj et al. print pictures, no shares: 50 % is our limit",
        "likenesses of another owner's digit",
        "",
        "comparisons:attack",
        ("digits",),
    ),
)
