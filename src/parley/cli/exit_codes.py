"""What the number says that a command leaves behind."""

EXIT_CODES = {
    0: "Done. A daemon: it was told to stop, and finished the calls under way.",
    1: "Not done, or not as promised: a person answered no, an audit found more leakage than the terms promise, nobody "
    "reads the output any more, or a fault of Parley's own, with a traceback.",
    2: "A mistake or a refusal, explained in one sentence: nothing was half-done, and the same again gives the same.",
    130: "Interrupted from the keyboard.",
}
