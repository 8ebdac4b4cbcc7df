"""Terms and tables of clinics, as tests of the studio have them in its folder."""

from samples import regression_table

CLINICS = {"north": (400, 1.0), "south": (300, 0.5)}  # records and epsilon


def clinic_terms(title="Two clinics", owners=CLINICS, features=3, public=False, data=True, more="", **numbers):
    """Terms as a file: of a straight line, ranges declared unless there is a public sample; `more` is said of each
    owner, and `numbers` are horizon and clip."""
    names = [f"x{k}" for k in range(features)]
    ranges = ", ".join(f"{name} = [-1, 1]" for name in [*names, "y"])
    known = 'public = "public.csv"' if public else f"bounds = {{ {ranges} }}"
    quoted = ", ".join(f'"{name}"' for name in names)
    head = f"""
title = "{title}"
[model]
kind = "linear-regression"
target = "y"
features = [{quoted}]
{known}
[learning]
algorithm = "gradient-descent"
horizon = {numbers.get("horizon", 2)}
step = 0.3
[privacy]
mechanism = "laplace"
clip = {numbers.get("clip", 2.0)}
"""
    return head + "".join(
        f'[[owners]]\nname = "{name}"\nrecords = {records}\nepsilon = {epsilon}\n'
        + (f'data = "{name}.csv"\n' if data else "")
        + more
        for name, (records, epsilon) in owners.items()
    )


def write_tables(folder, **rows):
    """Tables of so many rows, each with a seed of its own."""
    for seed, (name, count) in enumerate(rows.items(), 1):
        regression_table(count, seed=seed).to_csv(folder / f"{name}.csv", index=False)
