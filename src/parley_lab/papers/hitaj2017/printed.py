"""What of Hitaj et al. is shown here: the attack on digits, not its figures one by one."""

from parley_lab.papers.printed import Outcome, Printed

PRINTED = (
    Printed(
        "attack",
        Outcome.COMES_OUT,
        "one run on MNIST, --rounds 800: at best 82 % of what is drawn is taken for the digit without protection, "
        "72 % at ε = 8 of a record and 3 % at ε = 1; none where the unit is an owner",
        "likenesses of another owner's digit",
        "",
    ),
)
