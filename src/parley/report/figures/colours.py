"""The colours of figures and pages, distinguishable by everybody on light paper."""

INK, MUTED, GRID = "#1c2733", "#66727f", "#e3e8ed"
TOGETHER, ALONE, LIMIT = "#1f6f78", "#c8743c", "#8a94a0"
# Owners, classes or states side by side: the colours of Okabe and Ito without yellow, which paper swallows.
SERIES_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#66727f", "#1c2733")
