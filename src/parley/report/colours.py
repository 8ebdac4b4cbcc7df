"""The colours of figures and pages: told apart by everybody, on light paper."""

INK, MUTED, GRID = "#1c2733", "#66727f", "#e3e8ed"
TOGETHER, ALONE, LIMIT = "#1f6f78", "#c8743c", "#8a94a0"
